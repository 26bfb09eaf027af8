"""Rows whose origin was recovered, and none of the named readings gives: which map, and the name that fits it best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from kvcheck.addresses import Offsets
from kvcheck.diagnose.explanation import SAYS_ONLY, Explanation
from kvcheck.diagnose.facts import TENSORS, Facts
from kvcheck.diagnose.fault import Fault
from kvcheck.diagnose.match import on_groups
from kvcheck.diagnose.origin import Map, Origin, affine, origin
from kvcheck.diagnose.reading import Own, Reading, described, every_row, explanation, known, own, right_places, unlike
from kvcheck.schema import Tensor

#: What share of a tensor's wrong codes and scales must be explained for its origin not to be sought.
ENOUGH = 0.9


def elsewhere(facts: Facts, found: Sequence[Explanation], numeric: Sequence[Fault]) -> list[Explanation]:
    """What recovered origins explain, for tensors whose wrong codes `found` leaves open.

    Where the rows came from elsewhere and their codes are wrong even so, the `numeric` faults are asked about those
    rows: two causes at once.
    """
    made = []
    for tensor in TENSORS:
        source = own(facts, tensor)
        if (
            source is not None
            and not facts.all_right(tensor)
            and not any(_gives(facts, tensor, each) for each in found)
        ):
            for reading in unlike(facts, source, _readings(facts, source)):
                alone = explanation(facts, reading)
                both = _two_causes(facts, reading, numeric)
                made += [each for each in (alone, both) if each is not None]
    return made


def _two_causes(facts: Facts, reading: Reading, numeric: Sequence[Fault]) -> Explanation | None:
    """A reading with the numeric fault that makes the emitted codes of its rows; None where there is none."""
    tensor = reading.tensor
    if known(facts, reading) is not None:
        return None  # what was made of rows that are not known, nothing says
    there = facts.with_values(tensor, every_row(facts, reading))
    left = ~there.right(tensor).codes
    if not left.any():
        return None
    asked = [made for fault in numeric for made in fault.explanations(there)]
    asked = [each for each in asked if each.tensor == tensor and each.codes is not None and not each.of_others]
    best = max(asked, key=lambda each: (_count(each), -each.cost), default=None)
    if best is None or best.codes is None or _count(best) < ENOUGH * left.sum():
        return None
    right, moved = facts.right(tensor), there.right(tensor)
    wrong = ~right.codes
    scales = None if right.scales is None or moved.scales is None else ~right.scales & moved.scales
    if scales is not None and best.scales is not None:
        scales = scales | (best.scales & ~np.asarray(right.scales))
    second = replace(best, codes=best.codes & wrong, scales=None)
    return replace(described(facts, reading), codes=wrong & (~left | best.codes), scales=scales, beside=(second,))


def _gives(facts: Facts, tensor: Tensor, made: Explanation) -> bool:
    """Whether an explanation gives what is wrong of a tensor, codes and scales; both where both are."""
    right = facts.right(tensor)
    codes, scales = ~right.codes, None if right.scales is None else ~right.scales
    if made.unknown is not None and made.tensor == tensor:
        # Their origin is known where it is memory whose bytes are not.
        codes = codes & ~made.unknown[:, :, None]
        scales = None if scales is None else scales & ~on_groups(made.unknown, scales)
    for wrong, mask in ((codes, made.codes), (scales, made.scales)):
        if wrong is not None and wrong.any():
            # What only says on what bytes depend leaves their origin open.
            if made.tensor != tensor or made.cost >= SAYS_ONLY or mask is None:
                return False
            if mask.sum() < ENOUGH * wrong.sum():
                return False
    return True


def _count(made: Explanation) -> int:
    return 0 if made.codes is None else int(made.codes.sum())


def _readings(facts: Facts, source: Own) -> Iterator[Reading]:
    """By the affine map that the rows follow, and by a map of rows of K or of V."""
    found = origin(facts, source)
    if not len(found.address):
        return
    followed = affine(source, found)
    if followed is not None:
        yield _affine_reading(facts, source, followed)
    yield from _rows_reading(facts, source, found)


def _affine_reading(facts: Facts, source: Own, followed: Map) -> Reading:
    """The reading of a map, in the words of what is unlike the declaration."""
    fault, words = _name(facts, source, followed)
    used, declared = followed.strides, source.placed.strides
    shift = (followed.base - source.base) // source.item
    parts = [
        (f"{name} {got}", str(due))
        for name, got, due in zip(("token pitch", "head pitch", "inner stride"), used, declared, strict=True)
        if got != due
    ]
    how = f"with {', '.join(part for part, _ in parts)}; declared {', '.join(due for _, due in parts)}" if parts else ""
    if shift:
        how += f"{', ' if parts else ''}from {abs(shift)} elements {'behind' if shift > 0 else 'before'} its first one"
    how += f" ({words})" if words else ""
    evidence: dict[str, int | float | str | list[int]] = {
        "strides_used": list(used),
        "offset_used": shift,
        "rows_found": followed.rows,
    }
    return Reading(fault, source.tensor, source.strided(used, followed.base), how, 3, evidence)


def _name(facts: Facts, source: Own, followed: Map) -> tuple[str, str]:
    """The slug that fits a map best, and what its figures are."""
    other = own(facts, "v" if source.tensor == "k" else "k")
    used, declared = followed.strides, source.placed.strides
    _, heads, dim = source.placed.dims
    if other is not None and followed.base == other.base:
        return "foreign-read", f"{other.tensor.upper()}'s memory"
    if other is not None and used == other.placed.strides and (end := _end_of(other, followed.base)):
        # Its strides come with a begin that was counted from its own: nothing says that one's own pitch was ignored.
        return "offset-ignored", f"its begin is taken to be where {other.tensor.upper()}'s {end}, with its strides"
    theirs = declared if other is None else other.placed.strides
    sibling = _sibling(source.tensor).upper()
    fits: tuple[tuple[bool, str, str], ...] = (
        (used[0] != declared[0] and used[0] == theirs[0], "sibling-pitch", f"the pitch is {sibling}'s"),
        (
            used[1] == dim != declared[1] and used[2] == declared[2],
            "dense-heads",
            f"a dense one, and {sibling}'s" if theirs[1] == dim else "",
        ),
        (used[1] != declared[1] and used[1] == theirs[1], "sibling-pitch", f"the head pitch is {sibling}'s"),
        (used[2] == 1 != declared[2], "inner-stride-ignored", ""),
        (used[0] == heads * dim != declared[0], "dense-heads", ""),
        (used == declared, "offset-ignored", ""),
    )
    return next(((slug, words) for fit, slug, words in fits if fit), ("foreign-read", ""))


def _end_of(other: Own, base: int) -> str:
    """Which end of the sibling's an address is, in words: of its first row, or of all of them; empty for neither."""
    (tokens, heads, dim), (token, head, inner) = other.placed.dims, other.placed.strides
    ends = {
        heads * head: "first row ends",
        (heads - 1) * head + dim * inner: "first row ends",
        tokens * heads * dim: "rows would end if they were dense",
        (tokens - 1) * token + (heads - 1) * head + (dim - 1) * inner + 1: "rows end",
    }
    return ends.get((base - other.base) // other.item, "")


def _sibling(tensor: Tensor) -> Tensor:
    return "v" if tensor == "k" else "k"


def _rows_reading(facts: Facts, source: Own, found: Origin) -> Iterator[Reading]:
    """The reading that takes whole rows of K or V for others: a map of heads, of tokens, or of both."""
    if found.inner != source.placed.strides[2]:
        return
    starts = right_places(facts, source)[:, :, 0]
    where = {int(address): divmod(index, starts.shape[1]) for index, address in enumerate(starts.ravel())}
    places = starts.copy()
    known: dict[tuple[int, int], tuple[int, int]] = {}
    for token, head, address in zip(found.token.tolist(), found.head.tolist(), found.address.tolist(), strict=True):
        if address in where:
            known.setdefault((token, head), where[address])
            places[token, head] = address
    if len(known) < len({*zip(found.token.tolist(), found.head.tolist(), strict=True)}) / 2:
        return
    by_head = {head: to for (token, head), (at, to) in known.items() if at == token}
    by_token = {token: at for (token, head), (at, to) in known.items() if to == head}
    inner: Offsets = source.dim * (source.placed.strides[2] * source.item)
    full = np.ascontiguousarray(places[:, :, None] + inner)
    evidence: dict[str, int | float | str | list[int]] = {"rows_found": len(known)}
    if all(at == token and by_head[head] == to for (token, head), (at, to) in known.items()):
        mapped = [by_head.get(head, head) for head in range(starts.shape[1])]
        how = f"with heads {mapped} for heads 0 to {len(mapped) - 1}"
        yield Reading("head-mapping", source.tensor, full, how, 3, {**evidence, "heads_used": mapped})
    elif all(to == head and by_token.get(token) == at for (token, head), (at, to) in known.items()):
        mapped = [by_token.get(token, token) for token in range(starts.shape[0])]
        how = f"with tokens {mapped} for tokens 0 to {len(mapped) - 1}"
        yield Reading("foreign-read", source.tensor, full, how, 3, {**evidence, "tokens_used": mapped})
    else:
        (token, head), (at, to) = next((key, value) for key, value in sorted(known.items()) if key != value)
        how = f"with its rows for one another: token {token}, head {head} is token {at}, head {to}"
        yield Reading("foreign-read", source.tensor, full, how, 3, evidence)
