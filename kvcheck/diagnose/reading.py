"""A reading: the addresses that a faulty kernel takes K's or V's elements from, and how it stands up to the bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from kvcheck.addresses import Offsets, element_offsets
from kvcheck.diagnose import received
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import Facts, Floats, Mask
from kvcheck.diagnose.match import Match, believed, by_place, match
from kvcheck.diagnose.prospect import fails_reading
from kvcheck.diagnose.reach import stopped
from kvcheck.schema import ITEMSIZE, Placed, Tensor

#: What a reading assumes beyond others that is told by where wrong rows stand alone.
ONE_OF_MANY = 2


@dataclass(frozen=True, eq=False)  # arrays have no one equality
class Own:
    """K or V as the kernel received it, in elements from its first one.

    `token`, `head` and `dim` are indices that broadcast to its shape; `base` is the address of its first element, in
    bytes, `item` the size of one.
    """

    tensor: Tensor
    placed: Placed
    base: int
    item: int
    token: Offsets
    head: Offsets
    dim: Offsets

    def at(self, offsets: Offsets, base: int | None = None) -> Offsets:
        """Byte addresses of element `offsets` from `base` (its own): int64 `[tokens, heads, dim]`."""
        places = (self.base if base is None else base) + offsets * self.item
        if places.shape == self.placed.dims:
            return places
        return np.ascontiguousarray(np.broadcast_to(places, self.placed.dims))

    def strided(self, strides: tuple[int, ...], base: int | None = None) -> Offsets:
        """Byte addresses by these strides in elements."""
        return self.at(self.token * strides[0] + self.head * strides[1] + self.dim * strides[2], base)


@dataclass(frozen=True)
class Reading:
    """Where each element comes from: `places` int64 byte addresses `[tokens, heads, dim]`, `image.MASKED` for none.

    `how` follows "V is read " in the sentence. `cost` counts what it assumes. `usual` names the form of the fault that
    it is, where it is one that a pass speaks of: None for the others.
    """

    fault: str
    tensor: Tensor
    places: Offsets
    how: str
    cost: int = 1
    evidence: dict[str, int | float | str | list[int]] = field(default_factory=dict)
    usual: str | None = None


@lru_cache(maxsize=4)
def own(facts: Facts, tensor: Tensor) -> Own | None:
    """K or V; None where the kernel was handed a copy, since what lies around that is not known, or no element."""
    placed = received.source(facts.emission, tensor)
    if placed is None or 0 in placed.dims:
        return None
    item = ITEMSIZE[placed.dtype]
    token, head, dim = np.ogrid[tuple(slice(0, size) for size in placed.dims)]
    return Own(tensor, placed, facts.emission.addresses[placed.allocation] + placed.offset, item, token, head, dim)


@lru_cache(maxsize=4)
def right_places(facts: Facts, tensor: Own) -> Offsets:
    """Where the elements are: byte addresses `[tokens, heads, dim]`."""
    places: Offsets = element_offsets(tensor.placed) + np.int64(facts.emission.addresses[tensor.placed.allocation])
    return places


def unlike(facts: Facts, tensor: Own, readings: Iterator[Reading]) -> Iterator[Reading]:
    """Those of the readings that take an element from another place than a right kernel, each set of places once."""
    seen = {right_places(facts, tensor)[facts.stored_tokens].tobytes()}
    for each in readings:
        key = each.places[facts.stored_tokens].tobytes()
        if key not in seen:
            seen.add(key)
            yield each


def rows(facts: Facts, reading: Reading) -> Floats:
    """The rows that a kernel gets which reads so, of the slots compared: fp32 `[n, heads, dim]`."""
    placed = facts.emission.placement.get(reading.tensor)
    return facts.memory.values_at(facts.chosen(reading.tensor, reading.places), placed.dtype)


def every_row(facts: Facts, reading: Reading) -> Floats:
    """The rows that a kernel gets which reads so, of all stored tokens: fp32 `[stored tokens, heads, dim]`."""
    placed = facts.emission.placement.get(reading.tensor)
    return facts.memory.values_at(reading.places[facts.stored_tokens], placed.dtype)


def known(facts: Facts, reading: Reading) -> Mask | None:
    """Which elements of `every_row` kvcheck has put where they are read from; None where it has all of them."""
    placed = facts.emission.placement.get(reading.tensor)
    return facts.memory.known_at(reading.places[facts.stored_tokens], placed.dtype)


def shows(facts: Facts, tensor: Own, reading: Reading) -> bool:
    """Whether a kernel that reads so, from `tensor`, leaves a byte that a right one may not, in one of the launches.

    Or does not come so far, since a fence stops it.
    """
    if stopped(facts, reading.places[facts.stored_tokens], tensor.item):
        return True
    if (reading.places == right_places(facts, tensor))[facts.tokens].all():
        return False
    return any(fails_reading(facts, reading.tensor, rows(before, reading)) for before in facts.launches(reading.tensor))


def explanation(facts: Facts, reading: Reading) -> Explanation | None:
    """What a reading explains; None where it is chance, or less than half of what is wrong."""
    found = match(facts, reading.tensor, every_row(facts, reading), known(facts, reading))
    # Of the plainest readings alone: where rows are all alike, some row is another's.
    if believed(found) or (by_place(found) and reading.cost == 1):
        return explained(described(facts, reading), found)
    return None


def explained(made: Explanation, found: Match) -> Explanation:
    """An explanation by what was read, with what a believed match says that it explains, and what it leaves open."""
    evidence = {**made.evidence, "rows_explained": found.rows, "scales_explained": found.scales}
    if found.against:
        # It holds for a part of the rows only, and which part is one assumption more.
        evidence["rows_against"] = found.against
    says, unknown = made.says, found.unknown
    if unknown is not None:
        rows = int(unknown.sum())
        evidence["rows_unknown"] = rows
        says += f" ({rows} of its rows from memory whose bytes are not known)"
    cost = made.cost + bool(found.against)
    if by_place(found):
        evidence["rows_repeated"] = found.rows
        says += ", by where wrong rows stand alone: each repeats one code, which other causes leave as well"
        cost += ONE_OF_MANY
    return replace(
        made,
        codes=found.wrong_codes,
        scales=found.wrong_groups if found.wrong_scales else None,
        cost=cost,
        says=says,
        evidence=evidence,
        unknown=unknown,
    )


def described(facts: Facts, reading: Reading) -> Explanation:
    """A reading in words and figures, without what it explains."""
    declared = facts.emission.placement.get(reading.tensor)
    return Explanation(
        fault=reading.fault,
        tensor=reading.tensor,
        codes=None,
        scales=None,
        others=0,
        of_others=0,
        cost=reading.cost,
        says=f"{reading.tensor.upper()} is read {reading.how}",
        evidence={"strides_declared": list(declared.strides), **reading.evidence},
    )
