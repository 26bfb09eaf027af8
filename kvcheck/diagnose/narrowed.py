"""Scales, their reciprocals or the values themselves as narrower numbers, for a while or from then on."""

from __future__ import annotations

from typing import Literal

import numpy as np

from kvcheck.contract import Computed
from kvcheck.diagnose.facts import Facts, Floats, Stored
from kvcheck.diagnose.groups import ULP
from kvcheck.diagnose.scale_fault import Form, Made
from kvcheck.diagnose.scale_rules import applied, by_rule, computed, grouped
from kvcheck.diagnose.scale_uses import codes_of, due_scales, elements
from kvcheck.formats.apply import apply_scale, multiplies
from kvcheck.formats.cast import round_to
from kvcheck.formats.scale import right_scales
from kvcheck.schema import Tensor

Narrow = Literal["fp16", "bf16"]


def rounded_use(dtype: Narrow) -> Form:
    """Codes of the scale as a narrower number."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        x, scale = facts.values(tensor), elements(facts, tensor, emitted)
        if scale is None:
            return None
        scaled = apply_scale(facts.contract, x, round_to(np.ascontiguousarray(scale), dtype))
        return codes_of(facts, tensor, emitted, scaled, f"those of the scale rounded to {dtype}")

    return form


def power_used(way: str) -> Form:
    """Codes of a power of two beside the scale, the one `below` or `above` it, where the scale itself is due."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        x, scale = facts.values(tensor), elements(facts, tensor, emitted)
        if scale is None:
            return None
        mantissa, exponent = np.frexp(scale)
        exact = mantissa == np.float32(0.5)
        with np.errstate(all="ignore"):
            power = np.ldexp(np.float32(1), exponent - np.where(exact | (way == "below"), 1, 0))
            power = np.where(np.isfinite(scale) & (scale > 0), power, scale)
            scaled = apply_scale(facts.contract, x, np.asarray(power, np.float32))
        return codes_of(facts, tensor, emitted, scaled, f"those of the power of two {way} the scale")

    return form


def rounded_reciprocal(dtype: Narrow) -> Form:
    """Codes of the scale's reciprocal as a narrower number."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        x, scale = facts.values(tensor), elements(facts, tensor, emitted)
        if scale is None or multiplies(facts.contract):
            return None
        with np.errstate(all="ignore"):
            scaled = x * round_to(np.asarray(np.float32(1) / scale, np.float32), dtype)
        return codes_of(facts, tensor, emitted, scaled, f"those of the scale's reciprocal rounded to {dtype}")

    return form


def rounded_kept(dtype: Narrow, *, used: bool, cut: bool = False) -> Form:
    """Scales as narrower numbers, from then on or in the cache alone; `cut`: to bf16, by their first half."""

    def narrow(scale: Floats) -> Floats:
        return first_half(scale) if cut else np.asarray(round_to(scale, dtype), np.float32)

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        rule = computed(facts, emitted)
        if rule is None or emitted.scale is None or rule.dtype == dtype:
            return None
        due = grouped(right_scales(rule, facts.values(tensor)))
        kept = narrow(due)
        if rule.declared_ulps and kept.shape == emitted.scale.shape:
            # What was rounded may have been off by some ulps.
            ends = (due * np.float32(1 + way * rule.declared_ulps * ULP) for way in (-1, 1))
            for end in ends:
                other = narrow(np.asarray(end, np.float32))
                kept = np.where(other == emitted.scale, other, kept)
        how = "cut" if cut else "rounded"
        which = f"the {how} ones" if used else f"those before they were {how}"
        says = f"scales are {how} to {dtype} when they are kept, and its codes are those of {which}"
        scaled = applied(facts, facts.values(tensor), kept if used else due)
        return Made(kept, says, {"dtype": dtype}, scaled=scaled)

    return form


def narrow_arithmetic(dtype: Narrow) -> Form:
    """Codes of the scaled values as narrower numbers, by a scale that is one too: arithmetic in the source's dtype."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        x, scale = facts.values(tensor), elements(facts, tensor, emitted)
        if scale is None:
            return None
        scaled = apply_scale(facts.contract, x, round_to(np.ascontiguousarray(scale), dtype))
        narrow = np.asarray(round_to(np.asarray(scaled, np.float32), dtype), np.float32)
        return codes_of(facts, tensor, emitted, narrow, f"those of values and scales that are scaled in {dtype}")

    return form


def rounded_amax(dtype: Narrow, *, cut: bool = False) -> Form:
    """Scales of an amax that is rounded to a narrower number, or cut to bf16, and codes that follow them."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        rule, x = computed(facts, emitted), np.abs(facts.values(tensor))
        if rule is None:
            return None
        # No value is rounded past another: the largest of the rounded ones is the largest one rounded.
        narrow = first_half(x) if cut else round_to(x, dtype)
        narrow = np.asarray(narrow, np.float32)
        if (narrow.view(np.uint32) == x.view(np.uint32)).all():
            return None
        says = f"scales are those of the amax {'cut' if cut else 'rounded'} to {dtype}"
        return by_rule(rule, narrow, says, dtype=dtype)

    return form


def rounded_source(dtype: Narrow) -> Form:
    """Scales and codes of the values as narrower numbers."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        rule, x = facts.contract.scale, facts.values(tensor)
        narrow = np.asarray(round_to(x, dtype), np.float32)
        if (narrow.view(np.uint32) == x.view(np.uint32)).all():
            return None
        says = f"values are rounded to {dtype} before they are scaled"
        if isinstance(rule, Computed) and emitted.scale is not None:
            scale = grouped(right_scales(rule, narrow))
            used = emitted.scale if emitted.scale.shape == scale.shape else scale
            return Made(scale, says, {"dtype": dtype}, rule, narrow, scaled=applied(facts, narrow, used))
        scaled = narrow if rule is None else applied(facts, narrow, facts.given(tensor))
        return Made(None, says, {"dtype": dtype}, scaled=scaled)

    return form


def rounded_values(dtype: Narrow) -> Form:
    """Right scales, and codes of the values as narrower numbers."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        due, x = due_scales(facts, tensor, emitted), facts.values(tensor)
        narrow = np.asarray(round_to(x, dtype), np.float32)
        if due is None or (narrow.view(np.uint32) == x.view(np.uint32)).all():
            return None
        says = f"values are rounded to {dtype} after their scales are made"
        return Made(due, says, {"dtype": dtype}, scaled=applied(facts, narrow, due))

    return form


def first_half(x: Floats) -> Floats:
    """The first 16 bits of each number: bf16, cut off."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return np.asarray(bits & np.uint32(0xFFFF0000), np.uint32).view(np.float32)
