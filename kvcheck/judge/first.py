"""Where the first of some condemned bytes lies, and whose bytes they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import msgspec
import numpy as np

from kvcheck.addresses import byte_offsets, element_offsets, extent
from kvcheck.emission import STORED
from kvcheck.judge.subject import Bytes, Indices, Mask
from kvcheck.schema import ITEMSIZE, FirstByte, Placed


@dataclass(frozen=True)
class Part:
    """Rows of one filled tensor among a launch's bytes: `shape` `[rows, heads or groups…, item]`.

    `tokens` and `slots` `[rows]` say whose rows these are.
    """

    name: str
    shape: tuple[int, ...]
    tokens: Indices
    slots: Indices


def split(parts: Sequence[Part], mask: Mask) -> tuple[int, int]:
    """How many of the marked bytes are K's and V's. `mask` `[bytes]` covers the parts one after the other."""
    counts = {"k": 0, "v": 0}
    start = 0
    for part in parts:
        size = prod(part.shape)
        counts[side(part.name)] += int(mask[start : start + size].sum())
        start += size
    return counts["k"], counts["v"]


def first_stored(parts: Sequence[Part], mask: Mask, got: Bytes, want: Bytes, launch: int) -> FirstByte | None:
    """The first marked byte; all arrays are `[bytes]` and cover the parts. `launch`, from 1, is that of `got`."""
    if not mask.any():
        return None
    at = int(np.argmax(mask))
    start = 0
    for part in parts:
        size = prod(part.shape)
        if at < start + size:
            row, *inner, byte = (int(index) for index in np.unravel_index(at - start, part.shape))
            found = FirstByte(part.name, int(got[at]), int(want[at]), byte=byte, launch=launch)
            return _named(found, inner, part.shape[1:-1], int(part.tokens[row]), int(part.slots[row]))
        start += size
    raise IndexError(f"byte {at} of {start}")


def first_placed(tensor: Placed, offset: int, got: int, want: int | None, launch: int) -> FirstByte:
    """The byte at `offset` of the tensor's allocation: an element's, or one outside, in a gap or guard."""
    found = FirstByte(tensor.name, got, want, offset=offset - tensor.offset, launch=launch)
    item = ITEMSIZE[tensor.dtype]
    where = np.flatnonzero(byte_offsets(element_offsets(tensor), item).ravel() == offset)
    if not len(where):
        return msgspec.structs.replace(found, outside=True)
    *index, byte = (int(each) for each in np.unravel_index(int(where[0]), (*tensor.dims, item)))
    found = msgspec.structs.replace(found, byte=byte)
    if tensor.name in STORED:
        return _named(found, index[2:], tensor.dims[2:], None, index[0] * tensor.dims[1] + index[1])
    if len(index) == 3:
        return _named(found, index[1:], tensor.dims[1:], index[0], None)
    return msgspec.structs.replace(found, token=index[0])


def nearest(tensors: Sequence[Placed], allocation: int, offset: int) -> Placed | None:
    """The tensor of an allocation that holds a byte between its first and its last, or lies next to it."""
    here = [tensor for tensor in tensors if tensor.allocation == allocation]
    return min(here, key=lambda tensor: _gap(tensor, offset), default=None)


def side(name: str) -> str:
    """`k` or `v`, of a tensor's name; empty for a tensor of neither."""
    return next((part for part in name.split("_") if part in ("k", "v")), "")


def _named(
    found: FirstByte, inner: Sequence[int], dims: Sequence[int], token: int | None, slot: int | None
) -> FirstByte:
    """`found` with the indices of a row of codes `[heads, dim]`, or of scales `[heads]`, `[1]` or `[heads, blocks]`."""
    one_for_all = found.tensor.endswith("_scales") and tuple(dims) == (1,)
    head = None if one_for_all else inner[0]
    return msgspec.structs.replace(found, token=token, slot=slot, head=head, dim=inner[1] if len(inner) > 1 else None)


def _gap(tensor: Placed, offset: int) -> int:
    start, stop = extent(tensor)
    return max(start - offset, offset - stop + 1, 0)
