"""Reads of other elements of the same row: which element of its row each place holds, recovered from the codes.

By one map for all rows that takes some element twice or none: one that takes each once may as well be an order in
which they are stored, which `dims` names.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kvcheck.diagnose.facts import Bytes, Facts, Indices, Mask
from kvcheck.diagnose.image import MASKED
from kvcheck.diagnose.reading import Own, Reading
from kvcheck.schema import Tensor

#: Rows that a map is recovered from.
ROWS = 256
#: For a place that holds zero in all rows, whatever they have there.
NOTHING = -1
#: How unlikely a map without a rule must be by chance, as a power of ten: each place meets in a row whatever element
#: is asked for once in ten times, and may choose among all of them.
CHANCE = 8
#: Places that a sentence names of a map without a rule.
NAMED = 4

Evidence: TypeAlias = dict[str, int | float | str | list[int]]


@dataclass(frozen=True, eq=False)
class Columns:
    """The codes of one place, or of one element, in all rows, as numbers: equal ones have equal numbers.

    `held` of each place as it was stored, `due` of each element as it would be, both `[dim]`; `zero` marks places with
    nothing but zeros. `rows` of them vary within.
    """

    held: Indices
    due: Indices
    zero: Mask
    rows: int

    def fit(self, found: Indices) -> bool:
        """Whether the places may hold the elements `found` `[n]`, the last n places of them."""
        return bool((self.held[len(self.held) - len(found) :] == self.due[found]).all())


@dataclass(frozen=True, eq=False)
class Lanes:
    """The element `found` `[dim]` of each place, or `NOTHING`; `how` follows "is read"."""

    found: Indices
    how: str
    evidence: Evidence
    cost: int = 2


Rule: TypeAlias = Callable[[Columns], Lanes | None]


def tails(facts: Facts, source: Own) -> Iterator[Reading]:
    """`tail-mask`: right up to some element, and from there on zero, or the row's elements from another one on."""
    return _readings(facts, source, "tail-mask", tail)


def elements(facts: Facts, source: Own) -> Iterator[Reading]:
    """`foreign-read`: each element so many times, every so manieth one, or elements by no rule."""
    return _readings(facts, source, "foreign-read", element)


def _readings(facts: Facts, source: Own, fault: str, rule: Rule) -> Iterator[Reading]:
    columns = _columns(facts, source.tensor)
    made = None if columns is None else rule(columns)
    if made is not None:
        right = source.strided(source.placed.strides)
        places = np.where(made.found == NOTHING, np.int64(MASKED), right[:, :, np.maximum(made.found, 0)])
        yield Reading(fault, source.tensor, places, made.how, made.cost, made.evidence)


def tail(columns: Columns) -> Lanes | None:
    """Elements up to one, and then zeros, those from the row's first, or from another one on."""
    size = len(columns.held)
    place = np.arange(size)
    end = int(np.flatnonzero(columns.held != columns.due)[0])
    if not end:
        return None
    if columns.zero[end:].all():
        return _tail(end, np.where(place < end, place, NOTHING), "zero beyond")
    for again in range(end, 0, -1):
        if columns.fit(place % again):
            return _tail(again, place % again, "then from the row's first again")
    rest = np.arange(size - end)
    for begin in range(end):
        if columns.fit(rest + begin):
            return _tail(end, np.concatenate([place[:end], rest + begin]), f"then from element {begin} on")
    return None


def _tail(end: int, found: Indices, then: str) -> Lanes:
    return Lanes(found, f"up to element {end} of {len(found)}, {then}", {"elements_read": end, "head_dim": len(found)})


def element(columns: Columns) -> Lanes | None:
    """Each element some times over, every so manieth one, or, where nothing else is and chance is excluded, others."""
    size = len(columns.held)
    place = np.arange(size)
    for count in range(2, size):
        if columns.fit(place // count):
            return Lanes(place // count, f"with each element {count} times", {"times": count})
        if columns.fit(place * count % size):
            how = f"with every element {count} on, round each row"
            return Lanes(place * count % size, how, {"step": count})
    return None if tail(columns) else _by_no_rule(columns)


def _by_no_rule(columns: Columns) -> Lanes | None:
    """For each place its own element where it may hold that, else the one that follows, else the first."""
    found = np.full(len(columns.held), NOTHING, np.int64)
    for place, held in enumerate(columns.held.tolist()):
        may = np.flatnonzero(columns.due == held).tolist()
        if may:
            follows = int(found[place - 1]) + 1 if place else 0
            found[place] = place if place in may else follows if follows in may else may[0]
    moved = np.flatnonzero(found != np.arange(len(found))).tolist()
    # Zeros alone may have been read, or stored there later.
    if (found[moved] == NOTHING).all() or len(moved) * (columns.rows - math.log10(len(found))) < CHANCE:
        return None
    named = ", ".join(f"{'none' if found[at] == NOTHING else found[at]} for {at}" for at in moved[:NAMED])
    more = f" and {len(moved) - NAMED} more" if len(moved) > NAMED else ""
    how = f"with other elements of each row: {named}{more}"
    return Lanes(found, how, {"elements": found.tolist()}, 3)


def _columns(facts: Facts, tensor: Tensor) -> Columns | None:
    """What is stored and due of a tensor; None where places hold what is due, in whatever order, or other things."""
    emitted, taken = facts.emitted(tensor), facts.own(tensor)
    right = taken.under(taken.scale if emitted.scale is None else emitted.scale).right
    return columns(right, emitted.codes)


def columns(right: Bytes, codes: Bytes) -> Columns | None:
    """Of codes `[n, heads, dim]`, due and stored; None where all are due in some order, or a place is of no element."""
    due, held = (each.reshape(-1, each.shape[2])[:ROWS] for each in (right, codes))
    number: dict[bytes, int] = {}
    ids = [[number.setdefault(column.tobytes(), len(number)) for column in each.T] for each in (held, due)]
    zero = np.asarray(((held & 0x7F) == 0).all(axis=0))
    known = np.isin(ids[0], ids[1])
    if Counter(ids[0]) == Counter(ids[1]) or not (known | zero).all():
        return None
    rows = int((held != held[:, :1]).any(axis=1).sum())
    return Columns(np.array(ids[0], np.int64), np.array(ids[1], np.int64), zero, rows)
