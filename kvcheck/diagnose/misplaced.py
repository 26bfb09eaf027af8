"""Faults of destinations: right bytes, at the wrong place of the cache or of its scales.

A row counts as moved where it stands in full at the place that the fault leads to, and not where it is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import msgspec
import numpy as np

from kvcheck.addresses import Offsets, among, distinct
from kvcheck.diagnose.destination import Destination, Held, best, explanation
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Indices
from kvcheck.diagnose.part import Part, parts, wrong_positions
from kvcheck.diagnose.recovered import recovered_maps
from kvcheck.diagnose.side import offsets_of
from kvcheck.diagnose.strides import dense_heads, dense_rows, sibling, wrong_maps
from kvcheck.schema import Placed, Tensor

#: Maps that assume more than this are held against those that are recovered.
PLAIN = 3
#: Where a kernel with a fault puts a tensor's rows: byte offsets like `offsets_of`.
Canonical = Callable[[Facts, Placed], Offsets]


@lru_cache(maxsize=2)
def misplaced(facts: Facts) -> tuple[tuple[Part, Held], ...]:
    """For each part with bytes that are not as they may be, the destination that explains most, if any does."""
    found: list[tuple[Part, Held]] = []
    # Rows that are all alike fit many maps: they come behind those that tell one.
    for part in sorted(parts(facts), key=lambda each: -_unlike(each)):
        if not part.bad.any():
            continue
        held = best(part, wrong_maps(facts, part))
        if held is None or held.against or (held.moved != part.bad).any() or held.destination.cost > PLAIN:
            known = [] if held is None else [held.destination]
            held = best(part, [*known, *_with_others(part, found), *recovered_maps(part)])
        if held is not None:
            found.append((part, held))
    return tuple(found)


def _unlike(part: Part) -> int:
    """How many unlike rows of codes are due, of codes; 0 of scales, which come behind all codes."""
    if part.kind == "scales" or not part.bad.any():
        return 0
    codes = part.side.rows.due.codes
    return len(np.unique(codes.reshape(len(codes), -1), axis=0))


def _with_others(part: Part, found: Sequence[tuple[Part, Held]]) -> Iterator[Destination]:
    """The slots that other parts went to, where these were recovered: few scales by themselves may say too little."""
    for _, held in found:
        used = held.destination
        if used.slots is not None:
            fault = "scale-address" if part.kind == "scales" and used.fault == "cache-layout" else used.fault
            yield replace(used, fault=fault, at=part.at(part.placed, used.slots))


@lru_cache(maxsize=2)
def moved_positions(facts: Facts) -> Indices:
    """The positions of all condemned bytes that destinations explain."""
    found = [held.explained for _, held in misplaced(facts)]
    return distinct(np.concatenate(found)) if found else np.zeros(0, np.int64)


class Misplaced:
    """One fault of destinations, by name, with the usual kernels that have it."""

    def __init__(self, slug: str, kind: str, usual: Canonical | Mapping[str, Canonical]) -> None:
        """`kind` is `codes` or `scales`; `usual` is what a usual kernel does to those of either tensor, by form."""
        self.slug = slug
        self._kind = kind
        self._usual = usual if isinstance(usual, Mapping) else {"": usual}

    @property
    def forms(self) -> tuple[str, ...]:
        """The usual ones."""
        return tuple(self._usual)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether the usual kernels with this fault would leave another byte than a right one."""
        placed = _placed(facts, self._kind)
        if not placed:
            return {}
        return {form: any(self._shows(facts, each, put) for each in placed) for form, put in self._usual.items()}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """At most one for the codes and one for the scales of each tensor."""
        if not len(wrong_positions(facts)):
            return []
        return [explanation(part, held) for part, held in misplaced(facts) if held.destination.fault == self.slug]

    def _shows(self, facts: Facts, placed: Placed, canonical: Canonical) -> bool:
        due, used = _due(facts, placed), canonical(facts, placed)
        if used is due or (due == used).all():
            return False
        if not among(distinct(due), distinct(used)).all():
            return True
        # All bytes go to places of the same rows: whether that shows depends on what they are.
        tensor = TENSORS[0] if placed.name.startswith("k") else TENSORS[1]
        stored = facts.own(tensor).stored
        values = stored.codes if self._kind == "codes" else stored.scale
        assert values is not None
        standing = facts.compared
        data = np.ascontiguousarray(values).ravel()
        first_due, first_used = due[standing, ..., 0].ravel(), used[standing, ..., 0].ravel()
        return bool((data[np.argsort(first_due)] != data[np.argsort(first_used)]).any())


def _placed(facts: Facts, kind: str) -> list[Placed]:
    """The codes or scales of K and V; empty where none are stored."""
    found = [facts.emission.placement.find(f"{tensor}_{kind}") for tensor in TENSORS]
    return [each for each in found if each is not None]


@lru_cache(maxsize=8)
def _due(facts: Facts, placed: Placed) -> Offsets:
    """Where the rows are due, to be left as it is: each form asks for it again."""
    return offsets_of(placed, facts.slots)


def _with_strides(strides: Callable[[Facts, Placed], tuple[int, ...]]) -> Canonical:
    def place(facts: Facts, placed: Placed) -> Offsets:
        used = strides(facts, placed)
        if used == placed.strides:
            return _due(facts, placed)
        return offsets_of(msgspec.structs.replace(placed, strides=used), facts.slots)

    return place


def _of_sibling(tensor: Tensor) -> Canonical:
    """Where a kernel puts rows that takes the sibling's strides for those of `tensor`, and has the sibling right."""

    def strides(facts: Facts, placed: Placed) -> tuple[int, ...]:
        theirs = facts.emission.placement.get(f"{sibling(tensor)}{placed.name[1:]}")
        return theirs.strides if placed.name.startswith(tensor) else placed.strides

    return _with_strides(strides)


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
        return _due(facts, placed)
    return offsets_of(placed, facts.slots, np.maximum(facts.slots - 1, 0) // placed.dims[1])


def _narrowed(bits: int, *, signed: bool) -> Canonical:
    """Row offsets, in elements of one byte, wrap like integers of so many bits."""
    least = -(1 << (bits - 1)) if signed else 0

    def place(facts: Facts, placed: Placed) -> Offsets:
        due = _due(facts, placed)
        rows = due - offsets_of(placed, np.zeros(len(facts.slots), np.int64))
        return np.asarray(due - rows + ((rows - least) % (1 << bits) + least))

    return place


MISPLACED = (
    Misplaced(
        "sibling-cache-stride",
        "codes",
        {"V's by K's strides": _of_sibling("v"), "K's by V's strides": _of_sibling("k")},
    ),
    Misplaced("cache-layout", "codes", _with_strides(_other_order)),
    Misplaced("page-stride-from-shape", "codes", _with_strides(_pages_by_shape)),
    Misplaced("page-boundary", "codes", _to_page_before),
    Misplaced("scale-address", "scales", _with_strides(_side_by_side)),
    Misplaced("scale-layout", "scales", _with_strides(_heads_first)),
)
#: None that a pass speaks of.
MISALIGNED_WRITE = Misplaced("misaligned", "codes", {})
WRAPPED_WRITE = Misplaced(
    "index-wrap",
    "codes",
    {
        "cache rows in signed 32 bits": _narrowed(32, signed=True),
        "cache rows in unsigned 16 bits": _narrowed(16, signed=False),
    },
)
