"""Slots that tokens share: whose row stands there, chosen by how far each sharer's right row is from it.

A sequential run leaves the last one; on a GPU any may be left, K's of one and V's of another, and another in each
head, since programs finish in any order. A wrong row is still nearer to what its own token should have left: most
faults keep a scale or signs, or leave the sibling tensor right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Costs = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64]

#: K or V alone says whose row stands there where its nearest row is at most this share as far off as the next.
ALONE = 0.5
#: Both together do where theirs is; else nothing is known, and the last one is taken.
TOGETHER = 0.75
#: What a wrong sign counts beside its code: most faults keep it, and half of another row's are wrong.
SIGN = 4
#: What a wrong scale counts, in rows of codes, where another sharer's is right: no fault makes another row's scale.
SCALE = 8


@dataclass(frozen=True)
class Apart:
    """How far right rows are from what stands in their slots: in `codes` and signs, and whether `scales` are wrong.

    Both `[stored tokens, heads]`; `dim` is how many codes a row has. Where heads share a scale they have one figure.
    """

    codes: Costs
    scales: npt.NDArray[np.bool_]
    dim: int

    def of(self, sharers: Indices) -> Costs:
        """One figure for each sharer of a slot: `[sharers, heads]`. A scale that is none's does not tell them apart."""
        wrong = self.scales[sharers]
        return self.codes[sharers] + wrong * np.where(wrong.all(axis=0), 1, SCALE * self.dim)


def shared(slots: Indices) -> Iterator[Indices]:
    """The positions, ascending, of the tokens of each slot that several name; `slots` `[n]`."""
    order = np.argsort(slots, kind="stable")
    _, first, count = np.unique(slots[order], return_index=True, return_counts=True)
    for start, size in zip(first[count > 1].tolist(), count[count > 1].tolist(), strict=True):
        yield order[start : start + size]


def nearest(k: Costs, v: Costs) -> tuple[int, Indices, Indices]:
    """Which of a slot's tokens is its own as a whole, and in each head of K and of V: one index, and two `[heads]`.

    `k` and `v` `[sharers, heads]` say how far each token's right row is from what stands there; 0 is right in full,
    and such a row is always taken.
    """
    both = k + v
    whole = int(_clear(both.sum(axis=1, keepdims=True), TOGETHER, np.array([len(both) - 1]))[0])
    heads = _clear(both, TOGETHER, np.full(both.shape[1], whole))
    return whole, _own(k, both, heads), _own(v, both, heads)


def _own(cost: Costs, both: Costs, heads: Indices) -> Indices:
    """What one tensor says, head by head; where it does not say, what both do, among rows that are right if any is."""
    right = cost == 0
    among = np.where(right, both, np.iinfo(np.int64).max)
    either = np.where(right.any(axis=0) & ~right[heads, np.arange(cost.shape[1])], _last_least(among), heads)
    return _clear(cost, ALONE, either)


def _clear(cost: Costs, share: float, otherwise: Indices) -> Indices:
    """The index of the least of `[sharers, heads]`, head by head, where it is clearly the least; else `otherwise`."""
    least, following = np.sort(cost, axis=0)[:2]
    return np.where((least <= share * following) & (least < following), _last_least(cost), otherwise)


def _last_least(cost: Costs) -> Indices:
    """The last of the least, head by head."""
    return np.asarray(len(cost) - 1 - np.argmin(cost[::-1], axis=0))
