"""Memory as launch 1 left it, and which of its bytes are condemned: lost, or nobody's to change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from kvcheck.addresses import Offsets, among, byte_offsets, distinct, element_offsets, row_offsets
from kvcheck.diagnose.facts import Bytes, Facts, Indices, Mask
from kvcheck.draw.image import prefill_rows
from kvcheck.emission import PREFILLS, STORED, row_array
from kvcheck.schema import ITEMSIZE, Placed

#: Positions of different allocations never meet: no allocation has so many bytes.
ALLOCATION = 1 << 44


@dataclass(frozen=True)
class Gathered:
    """Bytes at some offsets, and which of the offsets an allocation has: others read as zero."""

    data: Bytes
    inside: Mask


class Final:
    """Every allocation before and after launch 1 (uint8 arrays)."""

    def __init__(self, facts: Facts) -> None:
        """Lay the launch's rows and changes over what stood there."""
        launch = facts.emission.launches[0]
        self._facts = facts
        self.before = facts.before
        self.after = tuple(array.copy() for array in self.before)
        for change in launch.changes:
            data = np.frombuffer(change.data, np.uint8)
            self.after[change.allocation][change.offset : change.offset + len(data)] = data
        for placed in self.stored:
            offsets = byte_offsets(row_offsets(placed, facts.slots), ITEMSIZE[placed.dtype])
            self.after[placed.allocation][offsets] = row_array(launch, placed, len(facts.slots))

    @cached_property
    def stored(self) -> tuple[Placed, ...]:
        """The tensors that the target fills."""
        return tuple(t for t in self._facts.emission.placement.tensors if t.name in STORED)

    def gather(self, allocation: int, offsets: Offsets) -> Gathered:
        """What stands after the launch at byte `offsets` of an allocation."""
        array = self.after[allocation]
        inside = (offsets >= 0) & (offsets < len(array))
        data = array[np.where(inside, offsets, 0)] if len(array) else np.zeros(offsets.shape, np.uint8)
        return Gathered(np.where(inside, data, np.uint8(0)), inside)

    @cached_property
    def stray(self) -> Indices:
        """The positions, ascending, of bytes that launch 1 changed and that are neither stored rows' nor inputs'."""
        changed = changed_positions(self._facts, 0)
        for tensor in self._facts.emission.placement.tensors:
            if len(changed) and tensor.name not in STORED:
                changed = changed[~among(changed, distinct(positions_of(tensor)))]
        return changed

    def lost(self, placed: Placed) -> Mask:
        """Which bytes of a tensor's rows were never stored: `[stored tokens, *a row's dims, item]`."""
        facts = self._facts
        offsets = byte_offsets(row_offsets(placed, facts.slots), ITEMSIZE[placed.dtype])
        missing: Mask = np.ones(offsets.shape, np.bool_)
        for launch, letter in zip(facts.emission.launches[:3], PREFILLS, strict=True):
            if not missing.any():
                break
            found = row_array(launch, placed, len(facts.slots))
            before = prefill_rows(facts.emission.placement, facts.emission.case, placed.name, offsets[missing], letter)
            missing[missing] = found[missing] == before
        return missing


@lru_cache(maxsize=2)
def final(facts: Facts) -> Final:
    """Memory as launch 1 of these facts left it. Kept for the faults that come after."""
    return Final(facts)


def changed_positions(facts: Facts, launch: int) -> Indices:
    """The positions of the bytes outside the addressed rows that a launch changed, ascending."""
    changes = facts.emission.launches[launch].changes
    sizes = np.array([len(change.data) for change in changes], np.int64)
    starts = np.array([change.allocation * ALLOCATION + change.offset for change in changes], np.int64)
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return distinct(np.repeat(starts, sizes) + within)


def positions_of(tensor: Placed) -> Indices:
    """The positions of all bytes of a tensor, flat."""
    return positions(tensor.allocation, byte_offsets(element_offsets(tensor), ITEMSIZE[tensor.dtype]).ravel())


def positions(allocation: int, offsets: Offsets) -> Indices:
    """Byte offsets into an allocation as numbers that no other allocation's bytes have."""
    return np.asarray(offsets + np.int64(allocation * ALLOCATION), np.int64)
