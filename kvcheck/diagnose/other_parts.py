"""Amaxes of other blocks of a row, or other heads of a token, in place of each one's own."""

from __future__ import annotations

import numpy as np

from kvcheck.diagnose.facts import Facts, Stored
from kvcheck.diagnose.groups import near
from kvcheck.diagnose.scale_fault import Made
from kvcheck.diagnose.scale_rules import UNDECLARED_ULPS, computed
from kvcheck.schema import Tensor

#: Blocks of a row, or heads, that a map is recovered of, at most; and how many of it a sentence names.
PARTS, NAMED = 64, 4
#: Wrong scales that a map is told by, at least.
SOME = 2


def of_other_parts(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Other blocks of a row, or other heads of a token, by one map for all rows that is recovered from their scales."""
    rule, right = computed(facts, emitted), facts.right(tensor).scales
    due = None if rule is None else facts.own(tensor).scale
    if due is None or emitted.scale is None or right is None or right.all() or due.shape != emitted.scale.shape:
        return None
    count = due.shape[-1]
    if due.ndim < 2 or not 1 < count <= PARTS:
        return None
    one, kept = due.reshape(-1, count), emitted.scale.reshape(-1, count)
    part = np.arange(count)
    # Its own comes first, then the next one before: of equal ones the nearest is named.
    order = (part[:, None] - part) % count
    holds = np.asarray(near(one[:, order], kept[:, :, None], UNDECLARED_ULPS).all(axis=0))
    taken = order[part, holds.argmax(axis=1)]
    moved = np.flatnonzero(taken != part)
    # One scale always has some other that is like it.
    apart = int((~near(kept, one, UNDECLARED_ULPS)).sum())
    if apart < SOME or not holds.any(axis=1).all() or not len(moved):
        return None
    of = "block" if due.ndim == 3 else "head"
    named = ", ".join(f"{of} {each} has {taken[each]}'s" for each in moved[:NAMED].tolist())
    says = f"scales are those of other {of}s' elements: {named}{' and so on' if len(moved) > NAMED else ''}"
    return Made(due[..., taken], says, {"order": taken.tolist()}, ulps=UNDECLARED_ULPS)
