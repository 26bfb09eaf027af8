"""Holding a predicted store against the right and the emitted one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvcheck.diagnose.facts import Facts, Floats, Mask
from kvcheck.schema import Tensor

#: How many wrong bytes a prediction must reproduce in full, varied rows before it is believed.
PROOF = 8


@dataclass(frozen=True)
class Match:
    """How a prediction fares: of `wrong` codes it explains `codes`, of `wrong_scales` `scales`.

    A (token, head) row is explained where every one of its emitted codes and its scale are what the contract allows a
    kernel that read the predicted values. `wrong_codes` and `wrong_groups` mark what that explains; `against` counts
    rows that are right and would not be. `proven` says that chance is excluded: explained rows reproduce at least
    `PROOF` wrong bytes. Rows of one repeated code do not count for that: zeros and saturated values look alike
    whatever fault made them. A wrong code meets a byte predicted at random less than once in ten times (codes of
    normal data crowd in some 60 values), so eight in rows without a miss come by chance less than once in 10^8.
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


def match(facts: Facts, tensor: Tensor, x: Floats) -> Match:
    """Hold what a kernel stores that read `x` `[stored tokens, heads, dim]` against what was emitted.

    In a slot that tokens share, the row of any of them may stand in a head.
    """
    emitted, right = facts.emitted(tensor), facts.right(tensor)
    wrong, wrong_scale = ~right.codes, _not(right.scales)
    shape = wrong.shape[:2]
    fits, undefined = _fits(facts, tensor, x)
    bad = wrong.any(axis=2) | per_row(wrong_scale, shape)
    explained = fits & bad
    varied = explained & (emitted.codes != emitted.codes[:, :, :1]).any(axis=2)
    # A code that is open under the prediction agrees with anything, and so proves nothing: its row does.
    codes = wrong.sum(axis=2)
    told = (wrong & ~undefined).sum(axis=2)
    explained = explained & ((told > 0) | per_row(wrong_scale, shape))
    # An fp32 scale is four bytes, and one that differs differs in more than its last bits.
    proof = int(told[varied].sum()) + 4 * int(per_row(wrong_scale, shape)[varied].sum())
    return Match(
        wrong=int(wrong.sum()),
        wrong_scales=int(wrong_scale.sum()),
        codes=int(codes[explained].sum()),
        scales=int((wrong_scale & on_groups(explained, wrong_scale)).sum()),
        rows=int(explained.sum()),
        proven=proof >= PROOF,
        against=int((~fits & ~bad).sum()),
        wrong_codes=wrong & explained[:, :, None],
        wrong_groups=np.asarray(wrong_scale & on_groups(explained, wrong_scale)),
    )


def _fits(facts: Facts, tensor: Tensor, x: Floats) -> tuple[Mask, Mask]:
    """Which of the rows compared a kernel may leave that read `x`: `[n, heads]`; which of their codes are open."""
    every = np.arange(len(facts.stored_tokens), dtype=np.int64)
    predicted = facts.agreement(tensor, x, facts.emitted(tensor, every))
    fits = np.asarray(predicted.codes.all(axis=2) & ~per_row(_not(predicted.scales), x.shape[:2]))
    if facts.alone.all():
        return fits, predicted.undefined
    position, head = np.nonzero(fits)
    chosen, heads = facts.positions(tensor).copy(), np.arange(x.shape[1])
    free = ~fits[chosen, heads][facts.row_of[position], head]
    chosen[facts.row_of[position[free]], head[free]] = position[free]
    return fits[chosen, heads], predicted.undefined[chosen, heads]


def _not(scales: Mask | None) -> Mask:
    """The other scales; no scales: an empty mask `[0, 0]`."""
    return np.zeros((0, 0), np.bool_) if scales is None else ~scales


def per_row(scales: Mask, shape: tuple[int, ...]) -> Mask:
    """Whether any scale of a (token, head) row is marked; a scale of the whole token marks all its heads."""
    if not scales.size:
        return np.zeros(shape, np.bool_)
    return np.broadcast_to(scales.any(axis=2) if scales.ndim == 3 else scales, shape)


def on_groups(rows: Mask, scales: Mask) -> Mask:
    """A mask of (token, head) rows on their scales; a scale of the whole token needs all its heads."""
    if not scales.size:
        return scales
    if scales.ndim == 3:
        return np.broadcast_to(rows[:, :, None], scales.shape)
    return rows if scales.shape == rows.shape else np.asarray(rows.all(axis=1, keepdims=True))
