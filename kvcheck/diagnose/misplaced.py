"""Faults of destinations: right bytes, at the wrong place of the cache or of its scales.

A row counts as moved where it stands in full at the place that the fault leads to, and not where it is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec
import numpy as np

from kvcheck.addresses import Offsets
from kvcheck.diagnose.destination import Held, best, explanation
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Indices
from kvcheck.diagnose.part import Part, parts, wrong_positions
from kvcheck.diagnose.recovered import recovered_maps
from kvcheck.diagnose.side import offsets_of
from kvcheck.diagnose.strides import dense_heads, dense_rows, sibling, wrong_maps
from kvcheck.schema import Placed

#: Where a kernel with a fault puts a tensor's rows: byte offsets like `offsets_of`.
Canonical = Callable[[Facts, Placed], Offsets]


@lru_cache(maxsize=2)
def misplaced(facts: Facts) -> tuple[tuple[Part, Held], ...]:
    """For each part with bytes that are not as they may be, the destination that explains most, if any does."""
    found = []
    for part in parts(facts):
        if not part.bad.any():
            continue
        held = best(part, wrong_maps(facts, part))
        if held is None or held.against or (held.moved != part.bad).any():
            held = best(part, [*([] if held is None else [held.destination]), *recovered_maps(part)])
        if held is not None:
            found.append((part, held))
    return tuple(found)


def moved_positions(facts: Facts) -> Indices:
    """The positions of all condemned bytes that destinations explain."""
    found = [held.explained for _, held in misplaced(facts)]
    return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)


class Misplaced:
    """One fault of destinations, by name; `canonical` is what its usual kernel does to `kind` of either tensor."""

    def __init__(self, slug: str, kind: str, canonical: Canonical) -> None:
        """`kind` is `codes` or `scales`."""
        self.slug = slug
        self._kind = kind
        self._canonical = canonical

    def observable(self, facts: Facts) -> bool:
        """Whether the usual kernel with this fault would leave another byte than a right one."""
        return any(self._shows(facts, placed) for placed in _placed(facts, self._kind))

    def explanations(self, facts: Facts) -> list[Explanation]:
        """At most one for the codes and one for the scales of each tensor."""
        if not len(wrong_positions(facts)):
            return []
        return [explanation(part, held) for part, held in misplaced(facts) if held.destination.fault == self.slug]

    def _shows(self, facts: Facts, placed: Placed) -> bool:
        due, used = offsets_of(placed, facts.slots), self._canonical(facts, placed)
        if (due == used).all():
            return False
        if len(np.setdiff1d(due, used)):
            return True
        # All bytes go to places of the same rows: whether that shows depends on what they are.
        if len(np.unique(facts.slots)) < len(facts.slots):
            return False
        tensor = TENSORS[0] if placed.name.startswith("k") else TENSORS[1]
        stored = facts.stored(tensor, facts.values(tensor, facts.stored_tokens))
        values = stored.codes if self._kind == "codes" else stored.scale
        assert values is not None
        data = np.ascontiguousarray(values).ravel()
        first_due, first_used = due[..., 0].ravel(), used[..., 0].ravel()
        return bool((data[np.argsort(first_due)] != data[np.argsort(first_used)]).any())


def _placed(facts: Facts, kind: str) -> Iterator[Placed]:
    for tensor in TENSORS:
        found = facts.emission.placement.find(f"{tensor}_{kind}")
        if found is not None and len(facts.slots):
            yield found


def _with_strides(strides: Callable[[Facts, Placed], tuple[int, ...]]) -> Canonical:
    def place(facts: Facts, placed: Placed) -> Offsets:
        return offsets_of(msgspec.structs.replace(placed, strides=strides(facts, placed)), facts.slots)

    return place


def _of_sibling(facts: Facts, placed: Placed) -> tuple[int, ...]:
    tensor = TENSORS[0] if placed.name.startswith("k") else TENSORS[1]
    return facts.emission.placement.get(f"{sibling(tensor)}{placed.name[1:]}").strides


def _pages_by_shape(facts: Facts, placed: Placed) -> tuple[int, ...]:  # noqa: ARG001 - one signature for all
    return (dense_rows(placed)[0], *placed.strides[1:])


def _other_order(facts: Facts, placed: Placed) -> tuple[int, ...]:  # noqa: ARG001
    """The order in which heads and rows are not nested."""
    _, row, head = placed.strides[:3]
    within = dense_heads(placed) if row >= head else dense_rows(placed)
    return (placed.strides[0], *within[1:])


def _side_by_side(facts: Facts, placed: Placed) -> tuple[int, ...]:  # noqa: ARG001
    return dense_rows(placed)


def _heads_first(facts: Facts, placed: Placed) -> tuple[int, ...]:  # noqa: ARG001
    pages, page, _, *inner = placed.dims
    block = inner[0] if inner else 1
    return (page * block, block, pages * page * block, *([1] if inner else []))


def _to_page_before(facts: Facts, placed: Placed) -> Offsets:
    """The first row of a page goes to the page before; nothing moves where a page is one row."""
    if placed.dims[1] == 1:
        return offsets_of(placed, facts.slots)
    return offsets_of(placed, facts.slots, np.maximum(facts.slots - 1, 0) // placed.dims[1])


def _in_32_bits(facts: Facts, placed: Placed) -> Offsets:
    """Row offsets, in elements, wrap like signed integers of 32 bits."""
    due = offsets_of(placed, facts.slots)
    rows = due - offsets_of(placed, np.zeros(len(facts.slots), np.int64))
    return np.asarray(due - rows + ((rows + (1 << 31)) % (1 << 32) - (1 << 31)))


MISPLACED = (
    Misplaced("sibling-cache-stride", "codes", _with_strides(_of_sibling)),
    Misplaced("cache-layout", "codes", _with_strides(_other_order)),
    Misplaced("page-stride-from-shape", "codes", _with_strides(_pages_by_shape)),
    Misplaced("page-boundary", "codes", _to_page_before),
    Misplaced("scale-address", "scales", _with_strides(_side_by_side)),
    Misplaced("scale-layout", "scales", _with_strides(_heads_first)),
)
WRAPPED_WRITE = Misplaced("index-wrap", "codes", _in_32_bits)
