"""Rows that were not to be stored, found in memory: of tokens with a negative slot, and of K's and V's extra rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kvcheck.addresses import among, distinct
from kvcheck.diagnose.destination import lost_or_stray
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Indices
from kvcheck.diagnose.final import final
from kvcheck.diagnose.match import PROOF
from kvcheck.diagnose.part import part, wrong_positions
from kvcheck.diagnose.search import find_rows, slots_at
from kvcheck.diagnose.side import Rows, condemned, offsets_of, placed_positions, rows_of, side, stored_at
from kvcheck.schema import Placed, Tensor

#: Places that a sentence names.
NAMED = 3


@dataclass(frozen=True)
class Astray:
    """Unwanted rows that were stored: of which tokens, where, and the condemned positions that they explain.

    `taken` says that all of them stand where other rows are due: who reads those from there leaves the same.
    """

    tensor: Tensor
    tokens: Indices
    places: tuple[str, ...]
    explained: Indices
    taken: bool


@lru_cache(maxsize=4)
def astray(facts: Facts, which: str) -> tuple[Astray, ...]:
    """K's and V's rows of tokens with a negative slot (`negative`), or of rows beyond the slots (`extra`)."""
    case = facts.emission.case
    every = np.arange(case.tokens, dtype=np.int64)
    wanted = np.setdiff1d(every, facts.stored_tokens)
    if which == "extra":
        wanted = np.arange(case.tokens, case.rows, dtype=np.int64)
    found = [_astray(facts, tensor, wanted) for tensor in TENSORS] if len(wanted) else []
    return tuple(each for each in found if each is not None)


def _astray(facts: Facts, tensor: Tensor, tokens: Indices) -> Astray | None:
    """Where rows of these tokens stand: the places that kernels put them, then wherever else they are found."""
    rows = rows_of(facts, tensor, tokens, np.full(len(tokens), -1, np.int64))
    codes, wrong = facts.emission.placement.get(f"{tensor}_codes"), wrong_positions(facts)
    hits: list[Indices] = []
    seen, places, taken = set(), [], True
    known = np.zeros(rows.x.shape[:2], np.bool_)
    searched = find_rows(facts, rows, codes)
    tried = [(where, _offsets(codes, slot, len(tokens))) for where, slot in _candidates(codes)]
    inner = np.arange(codes.dims[3], dtype=np.int64) * codes.strides[3]
    tried.append(("", np.where(searched < 0, -(1 << 40), searched)[:, :, None] + inner))
    scales = facts.emission.placement.find(f"{tensor}_scales")
    for where, offsets in tried:
        there = final(facts).gather(codes.allocation, offsets)
        stands = rows.taken.allowed.admits(there.data) & there.inside
        mine = placed_positions(codes, offsets).reshape(offsets.shape)
        rows_here = stands.all(axis=2) & among(mine, wrong).any(axis=2) & ~known
        known |= rows_here
        if not rows_here.any():
            continue
        hits.append(mine[rows_here])
        seen |= set(tokens[rows_here.any(axis=1)].tolist())
        slots = _slots(codes, offsets[:, :, 0])
        for token, head in np.argwhere(rows_here):
            slot = slots[token, head]
            taken = taken and not where and slot in facts.slots
            said = where or (
                f"slot {slot}" if slot >= 0 else f"byte {offsets[token, head, 0] - codes.offset} of the codes"
            )
            places += [said] if said not in places else []
            if scales is not None and slot >= 0:
                hits += _scale_hits(facts, rows, scales, int(token), int(slot))
    if not hits:
        return None
    explained = distinct(np.concatenate([hit.ravel() for hit in hits]))
    explained = explained[among(explained, wrong)]
    if len(explained) < PROOF:
        return None
    return Astray(tensor, np.array(sorted(seen), np.int64), tuple(places), explained, taken)


def _candidates(codes: Placed) -> list[tuple[str, int]]:
    last = codes.dims[0] * codes.dims[1] - 1
    return [(f"the last slot, {last}", last), ("slot 0", 0), ("the row before the first", -1)]


def _offsets(codes: Placed, slot: int, count: int) -> Indices:
    """The places of `count` rows in one slot; -1 is the row before the first, in no page."""
    if slot >= 0:
        return offsets_of(codes, np.full(count, slot, np.int64))[..., 0]
    step = codes.strides[0] if codes.dims[1] == 1 else codes.strides[1]
    return offsets_of(codes, np.zeros(count, np.int64))[..., 0] - step


def _slots(codes: Placed, starts: Indices) -> Indices:
    """The slot whose head begins at a byte offset, head by head: `[n, heads]`, or -1."""
    count = codes.dims[0] * codes.dims[1]
    return slots_at(offsets_of(codes, np.arange(count, dtype=np.int64))[:, :, 0, 0], starts)


def _scale_hits(facts: Facts, rows: Rows, scales: Placed, token: int, slot: int) -> list[Indices]:
    """The positions of a row's scales in a slot, where they stand there."""
    assert rows.due.scale is not None
    at = offsets_of(scales, np.array([slot]))
    side_codes = side(facts, rows.tensor).codes
    there = stored_at(final(facts), side_codes, offsets_of(side_codes, np.array([slot]))[..., 0], scales, at)
    found = facts.taken(rows.tensor, rows.x[token : token + 1]).agreement(there).scales
    return [] if found is None else [placed_positions(scales, at[found])]


class NegativeSlot:
    """`negative-slot`: a token whose slot says that it is not to be stored is stored all the same."""

    slug = "negative-slot"

    forms = ("",)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether a kernel that counts negative slots from the end would leave a row where none is due."""
        last = facts.emission.placement.slots - 1
        return {"": len(facts.stored_tokens) < facts.emission.case.tokens and last not in facts.slots}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """One for each tensor whose unwanted rows are found."""
        return [_says(facts, self.slug, each, "slot -1") for each in astray(facts, "negative")]


def extra_rows(facts: Facts, slug: str) -> list[Explanation]:
    """Rows of K and V beyond the slots that were stored."""
    return [_says(facts, slug, each, "no slot, beyond the last token") for each in astray(facts, "extra")]


def _says(facts: Facts, slug: str, found: Astray, whose: str) -> Explanation:
    tensor = found.tensor
    held = part(facts, tensor, "codes")
    assert held is not None
    compared = facts.compared
    mine = among(placed_positions(held.placed, held.due_at), found.explained).reshape(held.due_at.shape) & held.wrong
    places = ", ".join(found.places[:NAMED]) + (" and others" if len(found.places) > NAMED else "")
    tokens = ", ".join(str(token) for token in found.tokens[:NAMED].tolist())
    tokens += f" and {len(found.tokens) - NAMED} others" if len(found.tokens) > NAMED else ""
    return Explanation(
        fault=slug,
        tensor=tensor,
        codes=mine[compared],
        scales=None,
        others=lost_or_stray(facts, found.explained),
        of_others=condemned(facts),
        cost=3 if found.taken else 1,
        says=f"{tensor.upper()}'s rows with {whose} (token {tokens}) are stored, at {places}",
        evidence={"tokens": found.tokens.tolist(), "bytes": len(found.explained)},
    )
