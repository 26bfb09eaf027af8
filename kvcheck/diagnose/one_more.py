"""`foreign-read` by an amax over one element more: the one that lies behind the last head of a row."""

from __future__ import annotations

import msgspec
import numpy as np

from kvcheck.contract import Computed
from kvcheck.diagnose import received
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Mask, Stored
from kvcheck.diagnose.part import part
from kvcheck.diagnose.reach import stopped_in
from kvcheck.formats.arithmetic import legal_scales, right_scales
from kvcheck.schema import Placed, Tensor


def meets_fence(facts: Facts) -> bool:
    """Whether a fence stops a kernel that reads one element behind the last head of K or V."""
    wide = [each for tensor in TENSORS if (each := _widened(facts, tensor)) is not None]
    return any(stopped_in(facts, each, heads=slice(-1, None)) for each in wide)


def _widened(facts: Facts, tensor: Tensor) -> Placed | None:
    """K or V with one element more in each head; None where a right kernel takes no amax over a head of it."""
    rule = facts.contract.scale
    if not isinstance(rule, Computed) or rule.granularity != "token_head" or not len(facts.tokens):
        return None
    own = received.source(facts.emission, tensor)
    if own is None or facts.emission.placement.find(f"{tensor}_scales") is None:
        return None
    return msgspec.structs.replace(own, dims=(*own.dims[:2], own.dims[2] + 1))


def wide_rows(facts: Facts, tensor: Tensor, emitted: Stored | None) -> Mask:
    """Rows whose scale, over one element more than the last head has, is not a right one: `[n]`.

    With `emitted` only those whose emitted scale is such a one.
    """
    rule, wide = facts.contract.scale, _widened(facts, tensor)
    if wide is None:
        return np.zeros(len(facts.tokens), np.bool_)
    assert isinstance(rule, Computed)
    x = facts.read(wide)[:, -1:]
    right = right_scales(rule, facts.values(tensor)[:, -1:])
    if emitted is not None:
        assert emitted.scale is not None
        last = emitted.scale[:, -1:]
        return np.asarray((legal_scales(rule, last, x) & ~legal_scales(rule, last, facts.values(tensor)[:, -1:]))[:, 0])
    with np.errstate(invalid="ignore"):
        return np.asarray((right_scales(rule, x) != right)[:, 0])


def explained_by_one_more(facts: Facts, tensor: Tensor) -> Explanation | None:
    """The rows of the last head whose amax has one element too many, where their number excludes chance."""
    held = part(facts, tensor, "scales")
    if held is None or held.side.right_scales is None:
        return None
    emitted = facts.emitted(tensor)
    rows = wide_rows(facts, tensor, emitted)
    # A kernel that reads so does it in every row: one that should show it and does not is proof of another fault.
    if not rows.any() or (rows != wide_rows(facts, tensor, None)).any():
        return None
    codes = part(facts, tensor, "codes")
    assert codes is not None
    compared = facts.compared
    hit = np.zeros(emitted.codes.shape[:2], np.bool_)
    hit[:, -1] = rows
    wrong = codes.wrong[compared] & hit[:, :, None]
    scales = ~held.side.right_scales[compared] & hit
    says = (
        f"{tensor.upper()}'s scale of the last head is that of one element more, the one behind its row, "
        f"in {int(rows.sum())} of {len(rows)} tokens"
    )
    evidence: dict[str, int | float | str | list[int]] = {"elements_beyond": 1, "tokens": facts.tokens[rows].tolist()}
    return Explanation("foreign-read", tensor, wrong, scales, 0, 0, 2, says, evidence)
