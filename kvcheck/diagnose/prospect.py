"""What a case would have shown: whether bytes that a faulty kernel would store may stand where they do."""

from __future__ import annotations

import numpy as np

from kvcheck.contract import Computed
from kvcheck.diagnose.facts import Facts, Floats, Indices, Mask, Stored
from kvcheck.schema import Tensor


def fails(facts: Facts, tensor: Tensor, stored: Stored, free: Mask | None = None) -> bool:
    """Whether one of the bytes that a kernel would leave of `facts.tokens`, which are `standing`, is wrong.

    A slot that tokens share may hold the row of any of them. `free` `[n, heads, dim]` marks codes of which the
    prediction says nothing.
    """
    right = _right_rows(facts, tensor, facts.tokens, stored, free)
    if right.all():
        return False
    slots = facts.slots[np.searchsorted(facts.stored_tokens, facts.tokens)]
    one, other = np.nonzero(slots[:, None] == facts.slots[None, :])
    alike = facts.stored_tokens[other] != facts.tokens[one]
    one, other = one[alike], other[alike]
    if len(one):
        held = Stored(stored.codes[one], None if stored.scale is None else stored.scale[one])
        spare = None if free is None else free[one]
        np.logical_or.at(right, one, _right_rows(facts, tensor, facts.stored_tokens[other], held, spare))
    return not right.all()


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
    if single and alone and not _right_rows(facts, tensor, facts.tokens[first], facts.stored(tensor, x[first])).all():
        return True
    return fails(facts, tensor, facts.stored(tensor, x))


def _right_rows(facts: Facts, tensor: Tensor, tokens: Indices, stored: Stored, free: Mask | None = None) -> Mask:
    """Which (token, head) rows of `stored` a kernel may leave that stores `tokens`: `[n, heads]`."""
    found = facts.agreement(tensor, facts.values(tensor, tokens), stored)
    codes = np.asarray((found.codes if free is None else found.codes | free).all(axis=2))
    if found.scales is None:
        return codes
    return np.asarray(codes & (found.scales.all(axis=2) if found.scales.ndim == 3 else found.scales))
