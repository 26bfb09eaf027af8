"""`stray-write`: bytes changed that are nobody's to change, and that are no row which other faults know."""

from __future__ import annotations

import numpy as np

from kvcheck.addresses import among, distinct, extent
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Indices
from kvcheck.diagnose.final import ALLOCATION, final, positions_of
from kvcheck.diagnose.misplaced import moved_positions
from kvcheck.diagnose.side import condemned
from kvcheck.diagnose.unwanted import astray, extra_rows
from kvcheck.emission import STORED
from kvcheck.schema import ITEMSIZE, Placed


class StrayWrite:
    """Says whose surroundings are written, how far from a row, and what with."""

    slug = "stray-write"

    forms = ("",)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether a kernel that clears what lies between the heads of the codes would change a byte."""
        codes = [facts.emission.placement.get(f"{tensor}_codes") for tensor in TENSORS]
        gaps = any(placed.strides[2] > placed.dims[3] and not _is_shared(facts, placed) for placed in codes)
        return {"": len(facts.slots) > 0 and gaps}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """Extra rows that were stored; then what else is stray, by the tensor that it lies in or beside."""
        stray = final(facts).stray
        if not len(stray):
            return []
        made = extra_rows(facts, self.slug)
        known = [each.explained for which in ("negative", "extra") for each in astray(facts, which)]
        rest = stray[~among(stray, distinct(np.concatenate([moved_positions(facts), *known])))]
        whose = _nearest(facts, rest)
        tensors = facts.emission.placement.tensors
        return made + [_says(facts, tensors[index], rest[whose == index]) for index in np.unique(whose).tolist()]


def _is_shared(facts: Facts, placed: Placed) -> bool:
    """Whether other tensors lie between the heads: the sibling's codes, or scales."""
    return any(t.name in STORED and t.name != placed.name and t.allocation == placed.allocation
               and extent(t)[0] < extent(placed)[1] and extent(placed)[0] < extent(t)[1]
               for t in facts.emission.placement.tensors)  # fmt: skip


def _nearest(facts: Facts, stray: Indices) -> Indices:
    """The index of the tensor that each stray byte lies in, or is nearest to."""
    tensors = facts.emission.placement.tensors
    gaps = np.full((len(tensors), len(stray)), np.iinfo(np.int64).max)
    for gap, tensor in zip(gaps, tensors, strict=True):
        begin, end = (np.int64(tensor.allocation * ALLOCATION + edge) for edge in extent(tensor))
        here = stray // ALLOCATION == tensor.allocation
        inside = among(stray, distinct(positions_of(tensor)))
        distance = np.maximum(np.maximum(begin - stray, stray - end + 1), 0) + 1
        gap[here] = np.where(inside, 0, distance)[here]
    found: Indices = gaps.argmin(axis=0)
    return found


def _says(facts: Facts, tensor: Placed, stray: Indices) -> Explanation:
    offsets = stray % ALLOCATION
    begin, end = extent(tensor)
    inside = among(stray, distinct(positions_of(tensor)))
    where = [
        (int(inside.sum()), "in slots that no token names"),
        (int(((offsets >= begin) & (offsets < end) & ~inside).sum()), "between its rows and heads"),
        (int((offsets < begin).sum()), f"before its begin, the farthest {begin - int(offsets.min())} bytes"),
        (int((offsets >= end).sum()), f"behind its end, the farthest {int(offsets.max()) - end + 1} bytes"),
    ]
    places = "; ".join(f"{count} {words}" for count, words in where if count)
    runs = np.split(stray, np.flatnonzero(np.diff(stray) > 1) + 1)
    after = np.concatenate([final(facts).after[tensor.allocation][run % ALLOCATION] for run in runs])
    values = np.unique(after)
    data = f", all with {values[0]:#04x}" if len(values) == 1 else ""
    side = tensor.name[0] if tensor.name in STORED else ""
    longest = max(len(run) for run in runs)
    return Explanation(
        fault=StrayWrite.slug,
        tensor=side,
        codes=None,
        scales=None,
        others=len(stray),
        of_others=condemned(facts),
        cost=8,
        says=f"{len(stray)} bytes of nobody's are written in or beside {tensor.name}{data}: {places}",
        evidence={
            "bytes": len(stray),
            "runs": len(runs),
            "longest_run": longest,
            "first": int(offsets[0]) - tensor.offset,
            "item": ITEMSIZE[tensor.dtype],
        },
    )
