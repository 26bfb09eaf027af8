"""Holding a predicted store against the right and the emitted one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from kvcheck.contract import Computed
from kvcheck.diagnose.facts import Facts, Floats, Mask
from kvcheck.diagnose.taken import Taken, any_in_row
from kvcheck.schema import Tensor

#: What share of a tensor's wrong codes an account of what was read must explain.
SHARE = 0.5

#: How many wrong bytes a prediction must reproduce in full, varied rows before it is believed.
PROOF = 8


@dataclass(frozen=True)
class Match:
    """How a prediction fares: of `wrong` codes it explains `codes`, of `wrong_scales` `scales`.

    A (token, head) row is explained where every one of its emitted codes and its scale are what the contract allows a
    kernel that read the predicted values. `wrong_codes` and `wrong_groups` mark what that explains; `against` counts,
    where any row is explained, those that are right and would not be. `proven` says that chance is excluded: explained
    rows reproduce at least `PROOF` wrong bytes. Rows of one repeated code do not count for that: zeros and saturated
    values look alike whatever fault made them. A wrong code meets a byte predicted at random less than once in ten
    times (codes of normal data crowd in some 60 values), so eight in rows without a miss come by chance less than once
    in 10^8. `unknown` `[n, heads]` marks wrong rows, not explained, that hold elements whose bytes are not known, or
    share a scale with such: they speak neither for the prediction nor against it; None where there is none. Of the
    wrong codes they have `unknown_codes`. `placed` says that chance is excluded by place alone: every wrong row is
    explained, is of one repeated code, and has a right one beside it that would be right.
    """

    wrong: int
    wrong_scales: int
    codes: int
    scales: int
    rows: int
    proven: bool
    against: int
    wrong_codes: Mask
    wrong_groups: Mask
    unknown: Mask | None = None
    unknown_codes: int = 0
    placed: bool = False


def match(facts: Facts, tensor: Tensor, x: Floats, known: Mask | None = None) -> Match:
    """Hold what a kernel stores that read `x` `[stored tokens, heads, dim]` against what was emitted.

    In a slot that tokens share, the row of any of them may stand in a head. `known`, shaped like `x`, marks elements
    whose bytes are known; None where all are.
    """
    held = _wrong(facts, tensor)
    rows = None if known is None else known_rows(facts, known)
    found = _fits(facts, facts.taken(tensor, x), tensor, held.rows, rows)
    if found is None:
        return held.unexplained
    (fits, undefined), codes_here, shape = found, facts.emitted(tensor).codes, held.rows.shape
    told = np.True_ if rows is None else rows[facts.positions(tensor), np.arange(shape[1])]
    explained = fits & held.rows
    varied = explained & (codes_here != codes_here[:, :, :1]).any(axis=2)
    # A code that is open under the prediction agrees with anything, and so proves nothing: its row does.
    codes = held.codes.sum(axis=2)
    telling = (held.codes & ~undefined).sum(axis=2)
    scaled = any_in_row(held.scales, shape)
    explained = explained & ((telling > 0) | scaled)
    # An fp32 scale is four bytes, and one that differs differs in more than its last bits.
    proof = int(telling[varied].sum()) + 4 * int(scaled[varied].sum())
    scales = np.asarray(held.scales & on_groups(explained, held.scales))
    unknown = np.asarray(held.rows & ~fits & ~told)
    return replace(
        held.unexplained,
        codes=int(codes[explained].sum()),
        scales=int(scales.sum()),
        rows=int(explained.sum()),
        proven=proof >= PROOF,
        against=int((~fits & ~held.rows & told).sum()),
        wrong_codes=held.codes & explained[:, :, None],
        wrong_groups=scales,
        unknown=unknown if unknown.any() else None,
        unknown_codes=int(codes[unknown].sum()),
        placed=bool((explained == held.rows).all() and fits.all() and not held.rows.all() and codes.sum() >= PROOF),
    )


def believed(found: Match) -> bool:
    """Whether a match is no chance, and explains half of a tensor's wrong codes, or a scale where no code is wrong.

    Of the wrong codes in rows that can be told.
    """
    if not found.proven:
        return False
    left = found.wrong - found.unknown_codes
    return found.codes >= SHARE * left if left else found.scales > 0


def by_place(found: Match) -> bool:
    """Whether a match is not `believed` for its rows hold one repeated code each, and all else speaks for it.

    A cause among others then: whatever leaves zeros in these rows leaves the same.
    """
    return found.placed and not found.proven


def known_rows(facts: Facts, known: Mask) -> Mask:
    """Rows whose codes and scale follow from known elements alone: `[stored tokens, heads]`."""
    rows = np.asarray(known.all(axis=2))
    rule = facts.contract.scale
    granularity = rule.granularity if isinstance(rule, Computed) else "token_head"
    along = {"token": (1,), "head": (0,), "tensor": (0, 1)}.get(granularity)
    return rows if along is None else np.broadcast_to(rows.all(axis=along, keepdims=True), rows.shape)


def _fits(facts: Facts, taken: Taken, tensor: Tensor, wrong: Mask, known: Mask | None) -> tuple[Mask, Mask] | None:
    """Which of the rows compared a kernel may leave that took `taken`: `[n, heads]`; which of their codes are open.

    None where none of the `wrong` rows, `[n, heads]`, is among them. Rows that are not `known` are not.
    """
    emitted = facts.emitted_stored(tensor)
    may = taken.may_fit(emitted)
    if known is not None:
        may = may & known
    if not (may & wrong[facts.row_of]).any():
        return None
    predicted = taken.agreement(emitted)
    fits = np.asarray(predicted.codes.all(axis=2) & ~any_in_row(_not(predicted.scales), taken.x.shape[:2]))
    if known is not None:
        fits = fits & known
    if facts.alone.all():
        return fits, predicted.undefined
    position, head = np.nonzero(fits)
    chosen, heads = facts.positions(tensor).copy(), np.arange(taken.x.shape[1])
    free = ~fits[chosen, heads][facts.row_of[position], head]
    chosen[facts.row_of[position[free]], head[free]] = position[free]
    return fits[chosen, heads], predicted.undefined[chosen, heads]


@dataclass(frozen=True, eq=False)
class _Wrong:
    """What is wrong of a tensor: `codes` `[n, heads, dim]`, `scales` `[n, *groups]`, `rows` `[n, heads]`, either."""

    codes: Mask
    scales: Mask
    rows: Mask
    unexplained: Match


@lru_cache(maxsize=4)
def _wrong(facts: Facts, tensor: Tensor) -> _Wrong:
    right = facts.right(tensor)
    codes, scales = ~right.codes, _not(right.scales)
    none = Match(
        wrong=int(codes.sum()),
        wrong_scales=int(scales.sum()),
        codes=0,
        scales=0,
        rows=0,
        proven=False,
        against=0,
        wrong_codes=np.zeros_like(codes),
        wrong_groups=np.zeros_like(scales),
    )
    return _Wrong(codes, scales, codes.any(axis=2) | any_in_row(scales, codes.shape[:2]), none)


def _not(scales: Mask | None) -> Mask:
    """The other scales; no scales: an empty mask `[0, 0]`."""
    return np.zeros((0, 0), np.bool_) if scales is None else ~scales


def on_groups(rows: Mask, scales: Mask) -> Mask:
    """A mask of (token, head) rows on their scales; a scale of the whole token needs all its heads."""
    if not scales.size:
        return scales
    if scales.ndim == 3:
        return np.broadcast_to(rows[:, :, None], scales.shape)
    return rows if scales.shape == rows.shape else np.asarray(rows.all(axis=1, keepdims=True))
