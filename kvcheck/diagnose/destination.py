"""Places at which a kernel may have put a part's bytes instead of where they are due, held against what it left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kvcheck.addresses import Offsets, among, distinct
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import Facts, Indices, Mask
from kvcheck.diagnose.final import final
from kvcheck.diagnose.match import PROOF, SHARE
from kvcheck.diagnose.part import Part, parts, wrong_positions
from kvcheck.diagnose.side import condemned, placed_positions

Evidence = dict[str, int | float | str | list[int]]


@dataclass(frozen=True)
class Destination:
    """Where a kernel with a fault puts a part: byte offsets `at` `[n, units, width]`; `says` goes after its name.

    `slots` `[n]` are those that it takes for the part's own, where it is a map of slots: others may go there too.
    `alike` are other faults that lead to the very same places.
    """

    fault: str
    at: Offsets
    cost: int
    says: str
    evidence: Evidence
    slots: Indices | None = None
    alike: tuple[str, ...] = ()


def by_places(tried: Iterable[Destination]) -> list[Destination]:
    """One destination for each set of places, the cheapest that leads there, or the first; the others are `alike`.

    As arbitration does, those that assume more than one thing beyond it are left out.
    """
    found: dict[bytes, list[Destination]] = {}
    for each in tried:
        found.setdefault(each.at.tobytes(), []).append(each)
    return [_cheapest(group) for group in found.values()]


def _cheapest(group: Sequence[Destination]) -> Destination:
    chosen = min(group, key=lambda each: each.cost)
    near = (each.fault for each in group if each.cost < chosen.cost + 2 and each.fault != chosen.fault)
    return replace(chosen, alike=tuple(dict.fromkeys(near)))


@dataclass(frozen=True)
class Held:
    """How a destination fares: `moved` `[n, units]` stand there and not where they are due; `explained` positions.

    `proof` counts wrong or stray bytes that it reproduces, of units whose bytes vary. `against` counts units that it
    would have taken elsewhere and that stand where they are due.
    """

    destination: Destination
    moved: Mask
    explained: Indices
    proof: int
    against: int = 0


def hold(part: Part, destination: Destination) -> Held | None:
    """Hold a destination against what the launch left; None where no byte is condemned that it gives."""
    elsewhere = (destination.at != part.due_at).any(axis=2)
    suspect = elsewhere & part.bad
    if not suspect.any():
        return None
    places = placed_positions(part.placed, destination.at).reshape(destination.at.shape)
    # A unit that is right, for another one like it was put there, may stand where it is not due as well.
    astray = among(places, wrong_positions(part.facts)).any(axis=2) & elsewhere
    suspect |= astray
    there_too = part.stands(destination.at)
    stands = there_too & suspect[:, :, None]
    if not stands.any():
        return None
    # Of bytes that overlap the last are left, and what lies outside memory is not seen: neither is held against it.
    hidden = _overlapped(part, places)
    hidden |= _of_the_other_kind(part, places)
    hidden |= ~final(part.facts).gather(part.placed.allocation, destination.at).inside
    found = suspect & (stands | hidden).all(axis=2)
    there = places[stands & found[:, :, None]]
    if not len(there):
        return None
    # Nor is what looks right where it is due because another unit, moved there, is like it.
    taken = distinct(places[:, :, 0][elsewhere & there_too.all(axis=2)])
    filled = among(placed_positions(part.placed, part.due_at[:, :, :1]).reshape(found.shape), taken)
    moved = _with_sharers(part, found) & elsewhere & part.bad
    wrong = wrong_positions(part.facts)
    left = placed_positions(part.placed, part.due_at[part.lost & moved[:, :, None]])
    explained = distinct(np.concatenate([there, left]))
    explained = explained[among(explained, wrong)]
    # A unit that stands in full where another one is due went there after it.
    last = stands.all(axis=2)[:, :, None]
    varied = distinct(places[stands & (found & part.varied)[:, :, None] & (~hidden | last)])
    lost = distinct(placed_positions(part.placed, part.due_at[part.lost]))
    proof = int((among(varied, wrong) & ~among(varied, lost)).sum())
    if part.kind == "scales":
        # A byte of a scale where nobody's bytes should change is there by chance far less often than a code is.
        proof += int(among(varied, final(part.facts).stray).sum())
    elif len(left) >= PROOF:
        # Rows of one repeated code: so many stray bytes just where lost ones would have gone do not come by chance.
        proof += int(among(distinct(places[stands & found[:, :, None] & ~hidden]), final(part.facts).stray).sum()) // 4
    return Held(destination, moved, explained, proof, int((elsewhere & ~part.bad & ~found & ~filled).sum()))


def _overlapped(part: Part, places: Indices) -> Mask:
    """Which bytes of the places are also those of another slot's units, or of another unit of theirs."""
    _, first = np.unique(part.side.rows.slots, return_index=True)
    taken, count = np.unique(places[first], return_counts=True)
    return among(places, taken[count > 1])


def _of_the_other_kind(part: Part, places: Indices) -> Mask:
    """Which bytes of the places are due to the side's scales, or codes: inline scales are stored over moved codes."""
    tensor = part.side.rows.tensor
    held = [each for each in parts(part.facts) if each.side.rows.tensor == tensor and each.kind != part.kind]
    due = [placed_positions(each.placed, each.due_at) for each in held]
    return among(places, distinct(np.concatenate(due))) if due else np.zeros(places.shape, np.bool_)


def _with_sharers(part: Part, found: Mask) -> Mask:
    """The units, and those of tokens that share their slots: one of them is all that can stand."""
    _, which = np.unique(part.side.rows.slots, return_inverse=True)
    slots = np.zeros((int(which.max(initial=-1)) + 1, found.shape[1]), np.bool_)
    np.logical_or.at(slots, which.reshape(-1), found)
    return np.asarray(slots[which.reshape(-1)])


def best(part: Part, tried: list[Destination]) -> Held | None:
    """The destination that explains most, where chance is excluded; or None.

    Of equals the one that the fewest right units speak against, then the cheapest.
    """
    held = [found for found in (hold(part, each) for each in tried) if found is not None and _credible(part, found)]
    return max(held, key=lambda found: (len(found.explained), -found.against, -found.destination.cost), default=None)


def _credible(part: Part, found: Held) -> bool:
    """Whether chance is excluded. Two scales are equal by chance far sooner than two rows.

    So more of them must have moved than stand where they are due, and as many bytes be explained as are half of the
    wrong ones.
    """
    if found.proof < PROOF or part.kind == "codes":
        return found.proof >= PROOF
    enough = len(found.explained) >= SHARE * int((part.lost | part.wrong).sum())
    return enough and found.against <= int(found.moved.sum())


def explanation(part: Part, held: Held) -> Explanation:
    """A destination as what it explains of the emission."""
    facts, rows = part.facts, part.side.rows
    mine: Mask = among(placed_positions(part.placed, part.due_at), held.explained).reshape(part.due_at.shape)
    mine = np.asarray(mine & (part.lost | part.wrong))
    compared = facts.compared
    codes = mine[compared] & ~facts.right(rows.tensor).codes if part.kind == "codes" else None
    scales = None
    if part.kind == "scales":
        assert part.side.right_scales is not None
        scales = np.asarray(mine.any(axis=2))[compared].reshape((-1, *part.side.right_scales.shape[1:]))
    alike = {"alike": ", ".join(held.destination.alike)} if held.destination.alike else {}
    return Explanation(
        fault=held.destination.fault,
        tensor=rows.tensor,
        codes=codes,
        scales=scales,
        others=lost_or_stray(facts, held.explained),
        of_others=condemned(facts),
        cost=held.destination.cost,
        says=f"{part.called} are {held.destination.says}",
        evidence={**held.destination.evidence, "rows_moved": int(held.moved.sum()), **alike},
        of_writes=True,
    )


def lost_or_stray(facts: Facts, explained: Indices) -> int:
    """How many of some positions are lost or stray. One that tokens share is lost by each of them."""
    lost = [among(placed_positions(each.placed, each.due_at[each.lost]), explained) for each in parts(facts)]
    return sum(int(mine.sum()) for mine in (among(explained, final(facts).stray), *lost))
