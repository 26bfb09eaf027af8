"""What a case would have shown: whether bytes that a faulty kernel would store may stand where they do."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kvcheck.contract import Computed
from kvcheck.diagnose.facts import Facts, Floats, Mask, Stored
from kvcheck.diagnose.taken import Taken
from kvcheck.schema import Tensor


def either(shows: Iterable[bool | None]) -> bool | None:
    """True as soon as one of K and V shows it; None where neither can: what is not asked for is not computed."""
    found = None
    for each in shows:
        if each:
            return True
        found = each if found is None else found
    return found


def fails(facts: Facts, tensor: Tensor, stored: Stored, free: Mask | None = None) -> bool:
    """Whether one of the bytes that a kernel would leave of `facts.tokens`, which are `standing`, is wrong.

    A slot that tokens share may hold the row of any of them. `free` `[n, heads, dim]` marks codes of which the
    prediction says nothing.
    """
    right = _right_rows(facts.own(tensor), stored, free)
    if right.all():
        return False
    one, other = facts.sharing
    if len(one):
        # `one` are positions in `tokens`, `other` in `stored_tokens`.
        one, other = one[facts.compared[one]], other[facts.compared[one]]
        one = (np.cumsum(facts.compared) - 1)[one]
        held = Stored(stored.codes[one], None if stored.scale is None else stored.scale[one])
        spare = None if free is None else free[one]
        theirs = facts.taken(tensor, facts.own_stored(tensor).x[other])
        np.logical_or.at(right, one, _right_rows(theirs, held, spare))
    return not right.all()


def fails_scales(facts: Facts, tensor: Tensor, scale: Floats | None) -> bool:
    """Whether kept scales `[n, *groups]` are wrong whatever codes stand beside them."""
    return scale is not None and not len(facts.sharing[0]) and not bool(facts.own(tensor).legal(scale).all())


def fails_reading(facts: Facts, tensor: Tensor, x: Floats) -> bool:
    """Whether a kernel fails that gets `x` `[n, heads, dim]` for the rows of `facts.tokens`, and is right otherwise."""
    due = facts.values(tensor)
    moved = np.flatnonzero((x.view(np.uint32) != due.view(np.uint32)).any(axis=(1, 2)))
    if not len(moved):
        return False
    # One row that differs is enough, and quickly found: as a rule the first that is moved. A scale of many tokens
    # cannot be made from one, and a slot that tokens share has more than one right row.
    rule = facts.contract.scale
    single = not isinstance(rule, Computed) or rule.granularity not in {"head", "tensor"}
    first = moved[:1]
    alone = (facts.slots == facts.slots[np.searchsorted(facts.stored_tokens, facts.tokens[first])]).sum() == 1
    if (
        single
        and alone
        and not _right_rows(facts.taken(tensor, due[first]), facts.taken(tensor, x[first]).stored).all()
    ):
        return True
    return fails(facts, tensor, facts.taken(tensor, x).stored)


def _right_rows(taken: Taken, stored: Stored, free: Mask | None = None) -> Mask:
    """Which (token, head) rows of `stored` a kernel may leave that took these rows: `[n, heads]`."""
    found = taken.agreement(stored)
    codes = np.asarray((found.codes if free is None else found.codes | free).all(axis=2))
    if found.scales is None:
        return codes
    return np.asarray(codes & (found.scales.all(axis=2) if found.scales.ndim == 3 else found.scales))
