"""Which (row, head, dim) of a tensor an address is, or would be: at its own strides, or at another's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvcheck.sanitizer.shadow.findings import Grid
from kvcheck.sanitizer.shadow.segments import ROWS, Addresses
from kvcheck.schema import ITEMSIZE, Placed, Placement

#: The other tensor of the same kind.
SIBLING = {
    "k": "v", "v": "k", "k_codes": "v_codes", "v_codes": "k_codes", "k_scales": "v_scales", "v_scales": "k_scales",
    "out_k": "out_v", "out_v": "out_k",
}  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """Addresses read as elements of a tensor: rows and heads met, the row pitch that was assumed, and whose it is.

    `whose` is a tensor's name, `dense` for rows as far apart as they are wide, or empty for the tensor's own pitch.
    """

    rows: tuple[int, ...]
    heads: tuple[int, ...]
    pitch: int
    whose: str


def row_axes(tensor: Placed) -> int:
    """How many of a tensor's axes say which row: K and V have one, and so has a list."""
    return ROWS.get(tensor.name, 1)


def pitch_of(tensor: Placed) -> int:
    """Elements from row to row."""
    return tensor.strides[row_axes(tensor) - 1] if tensor.dims else 0


def reading(tensor: Placed, base: int, addresses: Addresses) -> Reading | None:
    """The elements that addresses are, at the tensor's own strides; None where one of them is none.

    `base` is the address of the tensor's allocation.
    """
    return _read(tensor, base, addresses, tensor.strides, "")


def guess(
    placement: Placement, tensor: Placed, base: int, lanes: Sequence[tuple[Grid, Addresses]], due: Addresses | None
) -> Reading | None:
    """The elements that addresses would be at another row pitch, where that is no chance.

    Tried are the tensor's strides with its sibling's row pitch, the sibling's own strides, and the tensor's with the
    pitch of dense rows. `lanes` are addresses by program. A pitch is believed where it makes rows of them that were to
    be stored (`due`, for a cache), or else each program's row the token that the program's index is.
    """
    addresses = np.concatenate([each for _, each in lanes])
    for strides, whose in _candidates(placement, tensor):
        found = _read(tensor, base, addresses, strides, whose)
        if found is None:
            continue
        if due is not None:
            believed = set(found.rows) <= set(due.tolist())
        else:
            rows = [(program, _read(tensor, base, each, strides, whose)) for program, each in lanes]
            believed = any(all(row and row.rows == (program[axis],) for program, row in rows) for axis in range(3))
        if believed:
            return found
    return None


def _candidates(placement: Placement, tensor: Placed) -> list[tuple[tuple[int, ...], str]]:
    axes = row_axes(tensor)
    own = tensor.strides
    found: list[tuple[tuple[int, ...], str]] = []
    sibling = placement.find(SIBLING.get(tensor.name, ""))
    if sibling is not None and len(sibling.dims) == len(tensor.dims):
        found = [((*sibling.strides[:axes], *own[axes:]), sibling.name), (sibling.strides, sibling.name)]
    wide = int(np.prod(tensor.dims[axes:]))
    dense = [wide * int(np.prod(tensor.dims[axis + 1 : axes])) for axis in range(axes)]
    return [each for each in (*found, ((*dense, *own[axes:]), "dense")) if each[0] != own]


def _read(tensor: Placed, base: int, addresses: Addresses, strides: tuple[int, ...], whose: str) -> Reading | None:
    offsets = addresses - base - tensor.offset
    item = ITEMSIZE[tensor.dtype]
    if 0 in tensor.dims or (offsets % item).any():
        return None
    indices = _indices(offsets // item, tensor.dims, strides)
    return None if indices is None else _reading(tensor, indices, strides, whose)


def _indices(offsets: Addresses, dims: tuple[int, ...], strides: tuple[int, ...]) -> list[Addresses] | None:
    """The index along every axis; None where some offset is no element of these strides."""
    left = offsets
    found = [np.zeros_like(offsets)] * len(dims)
    for axis in sorted(range(len(dims)), key=lambda each: -strides[each]):
        if dims[axis] > 1 and strides[axis]:
            found[axis] = left // strides[axis]
            left = left % strides[axis]
            if ((found[axis] < 0) | (found[axis] >= dims[axis])).any():
                return None
    return None if left.any() else found


def _reading(tensor: Placed, indices: list[Addresses], strides: tuple[int, ...], whose: str) -> Reading:
    axes = row_axes(tensor)
    rows = indices[0]
    for axis in range(1, axes):
        rows = rows * tensor.dims[axis] + indices[axis]
    heads = indices[axes] if len(tensor.dims) > axes else np.zeros(0, np.int64)
    return Reading(_distinct(rows), _distinct(heads), strides[axes - 1], whose)


def _distinct(numbers: Addresses) -> tuple[int, ...]:
    return tuple(int(number) for number in np.unique(numbers))
