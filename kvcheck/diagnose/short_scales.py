"""Scales stored as numbers of two bytes where four belong: the first two hold one, the others are never stored."""

from __future__ import annotations

import numpy as np

from kvcheck.contract import Computed
from kvcheck.diagnose.facts import Facts, Stored
from kvcheck.diagnose.narrowed import Narrow
from kvcheck.diagnose.part import part
from kvcheck.diagnose.scale_fault import Made
from kvcheck.diagnose.scale_rules import applied, computed
from kvcheck.formats.cast import round_to
from kvcheck.schema import Tensor

#: Dtypes of two bytes that scales have.
NARROW: tuple[Narrow, Narrow] = ("bf16", "fp16")


def short_dtype(facts: Facts, tensor: Tensor) -> Narrow | None:
    """What all scales of K or V are stored as instead of fp32; None where the second half of any is stored."""
    rule, held = facts.contract.scale, part(facts, tensor, "scales")
    if not isinstance(rule, Computed) or rule.dtype != "fp32" or held is None or held.side.found.scale is None:
        return None
    if held.lost[:, :, :2].any() or not held.lost[:, :, 2:].all():
        return None
    stored = np.ascontiguousarray(held.side.found.scale).view(np.uint32) & np.uint32(0xFFFF)
    due = held.side.rows.taken.scale
    if due.shape != stored.shape:
        return None
    for dtype in NARROW:
        rounded = np.ascontiguousarray(round_to(due, dtype), np.float32)
        bits = rounded.view(np.uint32) >> 16 if dtype == "bf16" else rounded.astype(np.float16).view(np.uint16)
        if (stored == bits).all():
            return dtype
    return None


def kept_short(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Right scales as bf16 or fp16 in the first half of each."""
    dtype = None if computed(facts, emitted) is None else short_dtype(facts, tensor)
    if dtype is None:
        return None
    says = f"scales are stored as {dtype}, in the first two of the four bytes of each"
    scaled = applied(facts, facts.values(tensor), facts.own(tensor).scale)
    return Made(emitted.scale, says, {"dtype": dtype}, scaled=scaled)
