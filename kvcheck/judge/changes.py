"""Bytes that changed outside the addressed rows: an input's (channel 6), or nobody's to change (channel 3)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kvcheck.addresses import Offsets, among, byte_offsets, distinct, element_offsets, extent
from kvcheck.draw.image import images
from kvcheck.judge.first import first_placed, nearest, side
from kvcheck.judge.subject import Bytes, Indices, Mask
from kvcheck.schema import ITEMSIZE, Emission, FirstByte, InputsVerdict, Launch, Placed

#: Positions of different allocations never meet: no allocation has so many bytes.
_ALLOCATION = 1 << 44


@dataclass(frozen=True)
class Changes:
    """The inputs' verdict, and the stray bytes: how many, how many beside K's and V's tensors, and the first."""

    inputs: InputsVerdict
    stray: int = 0
    k_stray: int = 0
    v_stray: int = 0
    first_stray: FirstByte | None = None


class _Changed(NamedTuple):
    """The changes of one launch, byte by byte: where each lies (see `_position`) and what stands there."""

    positions: Indices
    data: Bytes


def changes(emission: Emission, written: Collection[str]) -> Changes:
    """The distinct bytes that any launch changed outside the addressed rows, by whose they are.

    `written` names the tensors that the target fills; every other one is an input, and owns its elements' bytes alone:
    what lies between the rows of a view is stray.
    """
    launches = [_changed(launch) for launch in emission.launches]
    where = distinct(np.concatenate([each.positions for each in launches])) if launches else np.zeros(0, np.int64)
    if not len(where):
        return Changes(InputsVerdict())
    owned = np.zeros(where.shape, np.bool_)
    names = []
    for tensor in emission.placement.tensors:
        if tensor.name in written:
            continue
        mine = among(where, _positions(tensor))
        if mine.any():
            names.append(tensor.name)
        owned |= mine
    k_stray, v_stray = _by_side(emission, where[~owned], written)
    return Changes(
        InputsVerdict(int(owned.sum()), tuple(names), _first_changed(emission, launches, where[owned], names)),
        int((~owned).sum()),
        k_stray,
        v_stray,
        _first_changed(emission, launches, where[~owned], None),
    )


def _changed(launch: Launch) -> _Changed:
    """What one launch changed. Kernels that write astray leave runs by the thousand: no Python step for each byte."""
    sizes = np.array([len(change.data) for change in launch.changes], np.int64)
    starts = np.array([change.allocation * _ALLOCATION + change.offset for change in launch.changes], np.int64)
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    data = np.frombuffer(b"".join(change.data for change in launch.changes), np.uint8)
    return _Changed(np.repeat(starts, sizes) + within, data)


def _position(allocation: int, offsets: Offsets) -> Indices:
    """Bytes at `offsets` of an allocation as numbers that no other allocation's bytes have."""
    return np.asarray(offsets + np.int64(allocation * _ALLOCATION), np.int64)


def _positions(tensor: Placed) -> Indices:
    return distinct(_position(tensor.allocation, byte_offsets(element_offsets(tensor), ITEMSIZE[tensor.dtype])))


def _by_side(emission: Emission, stray: Indices, written: Collection[str]) -> tuple[int, int]:
    """How many stray bytes lie in K's filled tensors or, in none, beside K's tensor; and the same of V."""
    counts = {"k": 0, "v": 0, "": 0}
    rest: Mask = np.ones(stray.shape, np.bool_)
    for tensor in emission.placement.tensors:
        if tensor.name in written and rest.any():
            mine = rest & among(stray, _positions(tensor))
            counts[side(tensor.name)] += int(mine.sum())
            rest &= ~mine
    for name, count in _beside(emission.placement.tensors, stray[rest]):
        counts[side(name)] += count
    return counts["k"], counts["v"]


def _beside(tensors: Sequence[Placed], stray: Indices) -> list[tuple[str, int]]:
    """The nearest tensor of each stray byte: its name, and how many bytes it is nearest to."""
    gaps = np.full((len(tensors), len(stray)), np.iinfo(np.int64).max)
    for gap, tensor in zip(gaps, tensors, strict=True):
        start, stop = (_position(tensor.allocation, np.int64(end)) for end in extent(tensor))
        here = stray // _ALLOCATION == tensor.allocation
        gap[here] = np.maximum(np.maximum(start - stray[here], stray[here] - stop + 1), 0)
    best = gaps.argmin(axis=0)
    known = gaps.min(axis=0, initial=np.iinfo(np.int64).max) < np.iinfo(np.int64).max
    return [(tensor.name, int((known & (best == index)).sum())) for index, tensor in enumerate(tensors)]


def _first_changed(
    emission: Emission, launches: Sequence[_Changed], positions: Indices, names: Collection[str] | None
) -> FirstByte | None:
    """The first of some positions that the first launch to change any of them changed.

    It is told of the tensor among `names` that it is an element of; without `names`, of the nearest one.
    """
    for number, (launch, found) in enumerate(zip(emission.launches, launches, strict=True), 1):
        hits = np.flatnonzero(among(found.positions, positions))
        if len(hits):
            at = int(hits[np.argmin(found.positions[hits])])
            allocation, offset = divmod(int(found.positions[at]), _ALLOCATION)
            step = (launch.prefill, launch.poison, launch.redrawn)
            before = images(emission.placement, emission.case, emission.contract, *step)
            told = (int(found.data[at]), int(before[allocation][offset]), number)
            return _first_byte(emission.placement.tensors, allocation, offset, told, names)
    return None


def _first_byte(
    tensors: Sequence[Placed],
    allocation: int,
    offset: int,
    found: tuple[int, int, int],
    names: Collection[str] | None,
) -> FirstByte | None:
    mine = [tensor for tensor in tensors if tensor.allocation == allocation and (names is None or tensor.name in names)]
    told = [first_placed(tensor, offset, *found) for tensor in mine]
    inside = next((each for each in told if not each.outside), None)
    near = nearest(tensors, allocation, offset)
    return inside or (None if near is None else first_placed(near, offset, *found))
