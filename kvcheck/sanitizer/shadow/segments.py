"""The allocation map by address: which tensor's element lies where, whether it holds a value, whether it is due.

Sorted intervals, looked up by bisection: a cache of 2^32 elements needs as many entries as it has rows, and no copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvcheck.addresses import extent
from kvcheck.schema import ITEMSIZE, Placed, Placement

Addresses = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]

#: The rows that a case addresses, by tensor: slots of codes and scales, tokens of an output.
Rows = Mapping[str, npt.NDArray[np.int64]]

#: The tensors whose rows belong to slots or tokens, and how many of their axes say which.
ROWS = {"k_codes": 2, "v_codes": 2, "k_scales": 2, "v_scales": 2, "out_k": 1, "out_v": 1}

#: What is stored by a target of each kind. All else it only reads.
STORED = {"store": ("k_codes", "v_codes", "k_scales", "v_scales"), "load": ("out_k", "out_v")}

#: No tensor: a gap, a guard, or memory that is not kvcheck's.
NOBODY = -1


@dataclass(frozen=True)
class Segments:
    """Runs of bytes `[start, stop)`, sorted and apart, each of one tensor and of one row where it has rows.

    `owners` are indices into the placement's tensors. `due`: a store belongs here. `known`: it holds a value before
    the launch, so that a load may read it. The first segment is empty, of nobody, and lies before all others.
    """

    starts: Addresses
    stops: Addresses
    owners: Indices
    due: Flags
    known: Flags

    def at(self, addresses: Addresses) -> Indices:
        """The last segment that begins at or before each address."""
        return np.searchsorted(self.starts, addresses, side="right") - 1

    def hold(self, found: Indices, addresses: Addresses, size: int) -> Flags:
        """Whether all `size` bytes at each address lie in the segment `found`, or go on in the next of its tensor."""
        inside = addresses + size <= self.stops[found]
        if inside.all():
            return inside
        following = np.minimum(found + 1, len(self.starts) - 1)
        straddles = (
            (addresses < self.stops[found])
            & (self.stops[found] == self.starts[following])
            & (self.owners[found] == self.owners[following])
            & (addresses + size <= self.stops[following])
        )
        either: Flags = inside | straddles
        return either


def segments(placement: Placement, bases: tuple[int, ...], rows: Rows) -> Segments:
    """The map of a placement whose allocations begin at `bases`.

    `rows` names the rows that are addressed, by tensor: slots of the cache, tokens of an output. Of a tensor that a
    store target fills these are due and none is known; of one that a load target reads they alone are known. Raises
    ValueError where two tensors share a byte.
    """
    parts = [_sentinel()]
    for index, tensor in enumerate(placement.tensors):
        starts, length = runs(tensor, ROWS.get(tensor.name, 0))
        if not starts.size:
            continue
        count = starts.shape[0]
        marked = np.zeros(count, np.bool_)
        if tensor.name in ROWS:
            marked[rows[tensor.name]] = True
        filled = tensor.name in _filled(rows)
        due = marked if filled else np.zeros(count, np.bool_)
        known = np.zeros(count, np.bool_) if filled else (marked if tensor.name in ROWS else ~marked)
        parts.append(_part(starts + bases[tensor.allocation], length, index, due, known))
    starts, stops, owners, due, known = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(starts, kind="stable")
    made = Segments(starts[order], stops[order], owners[order], due[order], known[order])
    if (made.stops[:-1] > made.starts[1:]).any():
        raise ValueError("two placed tensors share a byte: no address has one owner")
    return made


def runs(tensor: Placed, keep: int) -> tuple[Addresses, int]:
    """Where a tensor's elements lie: offsets of runs without a gap, `[rows, runs a row]`, and a run's bytes.

    The first `keep` axes number the rows, in order; without any there is one row. An axis of stride 0 repeats.
    """
    item = ITEMSIZE[tensor.dtype]
    if 0 in tensor.dims:
        return np.zeros((0, 0), np.int64), 0
    rows = _sums(list(zip(tensor.dims[:keep], tensor.strides[:keep], strict=True)), item)
    length = item
    outer: list[tuple[int, int]] = []
    inner = zip(tensor.dims[keep:], tensor.strides[keep:], strict=True)
    for size, stride in sorted((each for each in inner if each[0] > 1 and each[1]), key=lambda each: each[1]):
        if not outer and stride * item == length:
            length *= size
        else:
            outer.append((size, stride))
    return tensor.offset + rows[:, None] + _sums(outer, item)[None, :], length


def extents(placement: Placement, bases: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """First address and the one past the last of every tensor, gaps between its rows included."""
    found = []
    for tensor in placement.tensors:
        start, stop = extent(tensor)
        found.append((bases[tensor.allocation] + start, bases[tensor.allocation] + stop))
    return tuple(found)


def _sums(axes: list[tuple[int, int]], item: int) -> Addresses:
    """Every sum of one multiple of each stride, in bytes, the last axis fastest."""
    offsets = np.zeros(1, np.int64)
    for size, stride in axes:
        offsets = (offsets[:, None] + np.arange(size, dtype=np.int64) * (stride * item)).reshape(-1)
    return offsets


def _filled(rows: Rows) -> tuple[str, ...]:
    """The tensors that the target fills: outputs where there are any, else the cache."""
    return STORED["load"] if STORED["load"][0] in rows else STORED["store"]


_Columns = tuple[Addresses, Addresses, Indices, Flags, Flags]


def _sentinel() -> _Columns:
    least = np.array([np.iinfo(np.int64).min])
    no = np.zeros(1, np.bool_)
    return least, least, np.array([NOBODY]), no, no


def _part(starts: Addresses, length: int, owner: int, due: Flags, known: Flags) -> _Columns:
    each = starts.shape[1]
    flat = starts.reshape(-1)
    return flat, flat + length, np.full(flat.size, owner), np.repeat(due, each), np.repeat(known, each)
