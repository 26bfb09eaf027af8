"""Bytes that changed outside the addressed rows: an input's (channel 6), or nobody's to change (channel 3)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from kvcheck.addresses import Offsets, byte_offsets, element_offsets
from kvcheck.draw.image import images
from kvcheck.judge.first import first_placed, nearest, side
from kvcheck.judge.subject import Indices, Mask
from kvcheck.schema import ITEMSIZE, Emission, FirstByte, InputsVerdict, Placed

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


def changes(emission: Emission, written: Collection[str]) -> Changes:
    """The distinct bytes that any launch changed outside the addressed rows, by whose they are.

    `written` names the tensors that the target fills; every other one is an input, and owns its elements' bytes alone:
    what lies between the rows of a view is stray.
    """
    where = _changed(emission)
    if not len(where):
        return Changes(InputsVerdict())
    owned = np.zeros(where.shape, np.bool_)
    names = []
    for tensor in emission.placement.tensors:
        if tensor.name in written:
            continue
        mine = np.isin(where, _positions(tensor))
        if mine.any():
            names.append(tensor.name)
        owned |= mine
    k_stray, v_stray = _by_side(emission, where[~owned], written)
    return Changes(
        InputsVerdict(int(owned.sum()), tuple(names), _first(emission, where[owned], names)),
        int((~owned).sum()),
        k_stray,
        v_stray,
        _first(emission, where[~owned], None),
    )


def _changed(emission: Emission) -> Indices:
    """The distinct positions of all changes of all launches, ascending."""
    runs = [
        _position(change.allocation, change.offset + np.arange(len(change.data), dtype=np.int64))
        for launch in emission.launches
        for change in launch.changes
    ]
    return np.unique(np.concatenate(runs)) if runs else np.zeros(0, np.int64)


def _position(allocation: int, offsets: Offsets) -> Indices:
    """Bytes at `offsets` of an allocation as numbers that no other allocation's bytes have."""
    return np.asarray(offsets + np.int64(allocation * _ALLOCATION), np.int64)


def _positions(tensor: Placed) -> Indices:
    return _position(tensor.allocation, byte_offsets(element_offsets(tensor), ITEMSIZE[tensor.dtype]).ravel())


def _by_side(emission: Emission, stray: Indices, written: Collection[str]) -> tuple[int, int]:
    """How many stray bytes lie in K's filled tensors or, in none, beside K's tensor; and the same of V."""
    counts = {"k": 0, "v": 0, "": 0}
    rest: Mask = np.ones(stray.shape, np.bool_)
    for tensor in emission.placement.tensors:
        if tensor.name in written and rest.any():
            mine = rest & np.isin(stray, _positions(tensor))
            counts[side(tensor.name)] += int(mine.sum())
            rest &= ~mine
    for run in np.split(stray[rest], np.flatnonzero(np.diff(stray[rest]) != 1) + 1) if rest.any() else ():
        beside = nearest(emission.placement.tensors, *divmod(int(run[0]), _ALLOCATION))
        counts[side(beside.name) if beside else ""] += len(run)
    return counts["k"], counts["v"]


def _first(emission: Emission, positions: Indices, names: Collection[str] | None) -> FirstByte | None:
    """The first of some positions that the first launch to change any of them changed.

    It is told of the tensor among `names` that it is an element of; without `names`, of the nearest one.
    """
    for number, launch in enumerate(emission.launches, 1):
        for change in sorted(launch.changes, key=lambda change: (change.allocation, change.offset)):
            run = _position(change.allocation, change.offset + np.arange(len(change.data), dtype=np.int64))
            hit = np.flatnonzero(np.isin(run, positions))
            if not len(hit):
                continue
            offset = change.offset + int(hit[0])
            step = (launch.prefill, launch.poison, launch.redrawn)
            before = images(emission.placement, emission.case, emission.contract, *step)
            got, want = change.data[int(hit[0])], int(before[change.allocation][offset])
            return _told(emission, change.allocation, offset, (got, want, number), names)
    return None


def _told(
    emission: Emission, allocation: int, offset: int, found: tuple[int, int, int], names: Collection[str] | None
) -> FirstByte | None:
    tensors = emission.placement.tensors
    near = nearest(tensors, allocation, offset)
    mine = [tensor for tensor in tensors if tensor.allocation == allocation and (names is None or tensor.name in names)]
    told = [first_placed(tensor, offset, *found) for tensor in mine]
    inside = next((each for each in told if not each.outside), None)
    return inside or (None if near is None else first_placed(near, offset, *found))
