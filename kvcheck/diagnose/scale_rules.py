"""Scales by another rule than the contract's: another maximum, rounding or arithmetic."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from kvcheck.contract import Computed
from kvcheck.diagnose.facts import Facts, Floats, Mask, Stored
from kvcheck.diagnose.groups import ULP, encoded
from kvcheck.diagnose.scale_fault import Form, Made
from kvcheck.formats.apply import apply_scale
from kvcheck.formats.cast import power_of_two_above, round_to
from kvcheck.formats.scale import bounded, element_scales, largest_magnitudes, right_scales
from kvcheck.schema import Tensor

#: The constants that a pass speaks of: e4m3fnuz's largest, by far the most common one that is wrong, and a near one.
COMMON_MAXIMA = (240.0, 440.0)
#: A recovered constant is believed where it is a multiple of this: kernels write 127, 240, 57344, 0.5.
STEP = 0.25
#: ... and, where one quotient is all there is, no more than this.
LARGEST_ALONE = 512.0
#: An arithmetic that nobody declared may be off by so many ulps: the approximate forms of contracts are by 3 at most.
UNDECLARED_ULPS = 4
#: Wrong codes that may all lie beside ties by chance; of more, what share of the codes there.
FEW, MOSTLY = 4, 0.6
#: How likely codes that went wrong by chance may be to lie beside ties all of them.
CHANCE = 0.02


def applied(facts: Facts, x: Floats, scale: Floats) -> Floats:
    """Rows with a scale `[n, *groups]` or a given one applied as the contract says."""
    return applied_elements(facts, x, np.asarray(element_scales(facts.contract, scale, x.shape)))


def applied_elements(facts: Facts, x: Floats, scale: Floats) -> Floats:
    """Rows with a scale for each element applied as the contract says."""
    with np.errstate(all="ignore"):
        return apply_scale(facts.contract, x, scale)


def grouped(scale: Floats) -> Floats:
    """A scale a token has one group."""
    return scale[:, None] if scale.ndim == 1 else scale


def by_rule(rule: Computed, values: Floats, says: str, **evidence: float | str) -> Made:
    """Scales of some values by a rule, and codes of the right rows that follow them."""
    scale = right_scales(rule, values)
    return Made(grouped(scale), says, dict(evidence), rule, values)


def computed(facts: Facts, emitted: Stored) -> Computed | None:
    """The contract's rule, where scales are computed and kept."""
    rule = facts.contract.scale
    return rule if isinstance(rule, Computed) and emitted.scale is not None else None


def other_maximum(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Another constant for the format's largest value, recovered from the scales and their amax."""
    rule = computed(facts, emitted)
    if rule is None or emitted.scale is None or rule.derive == "power_of_two" or rule.dtype == "ue8m0":
        return None
    amax = largest_magnitudes(rule, facts.values(tensor))
    limit = _maximum(grouped(bounded(rule, amax)), emitted.scale)
    return None if limit is None else for_largest(limit)(facts, tensor, emitted)


def for_largest(limit: float) -> Form:
    """The constant `limit` for the format's largest value."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        rule = computed(facts, emitted)
        if rule is None or limit == rule.maximum or rule.derive == "power_of_two" or rule.dtype == "ue8m0":
            return None
        says = f"scales are those of {limit:g} for the largest value, where {rule.maximum:g} is due"
        other = replace(rule, maximum=limit)
        return by_rule(other, facts.values(tensor), says, maximum=limit, due=rule.maximum)

    return form


def _maximum(amax: Floats, scale: Floats) -> float | None:
    """The constant that makes these scales of their amax, as a multiple of `STEP`."""
    if amax.shape != scale.shape:
        return None
    some = np.isfinite(scale) & np.isfinite(amax) & (scale > 0) & (amax > 0)
    if not some.any():
        return None
    found = float(np.median(amax[some].astype(np.float64) / scale[some]))
    nearest = round(found / STEP) * STEP
    # One amax and its scale have always some quotient: it is believed where it could be a format's largest value.
    alone = len(np.unique(amax[some])) == 1
    return nearest if nearest > 0 and not (alone and nearest > LARGEST_ALONE) else None


def no_more_than(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """A largest scale, recovered from the wrong ones that are all one, less than is due."""
    rule = computed(facts, emitted)
    if rule is None or emitted.scale is None:
        return None
    wrong, due = wrong_scales(facts, tensor), grouped(right_scales(rule, facts.values(tensor)))
    found = np.unique(emitted.scale[wrong])
    if len(found) != 1 or not found[0] > 0 or due.shape != wrong.shape or len(np.unique(due[wrong])) < 2:
        return None
    limit = found[0]
    if not (due[wrong] > limit).all():
        return None
    says = f"scales are no more than {limit:g}, and larger ones are due"
    return Made(np.minimum(due, limit), says, {"limit": float(limit)}, ulps=rule.declared_ulps)


def by_reciprocal(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The scale as the amax times a reciprocal, one rounding too many."""
    rule = computed(facts, emitted)
    if rule is None or rule.derive != "divide":
        return None
    says = "scales are the amax times the reciprocal of the largest value, not divided by it"
    return by_rule(replace(rule, derive="multiply_reciprocal"), facts.values(tensor), says)


def within_ulps(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Scales a few ulps off, and codes of scaled values that are: a quotient or a reciprocal that is not IEEE's."""
    rule = facts.contract.scale
    ulps = UNDECLARED_ULPS
    x = facts.values(tensor)
    scale = emitted.scale if emitted.scale is not None else _given(facts, tensor)
    if rule is None or scale is None or not np.isfinite(scale).all():
        return None
    says = f"scales and scaled values are off by {ulps} ulps at most: by an arithmetic that is not the contract's"
    scaled = applied(facts, x, scale)
    if not _some_beside_ties(facts, scaled, emitted, ulps):
        return None
    if not isinstance(rule, Computed):
        return Made(emitted.scale, says, {"ulps": ulps}, scaled=scaled, error=ulps)
    wide = replace(rule, ulps=max(ulps, rule.declared_ulps))
    return Made(emitted.scale, says, {"ulps": ulps}, wide, x, scaled=scaled, error=ulps)


def _some_beside_ties(facts: Facts, scaled: Floats, emitted: Stored, ulps: int) -> bool:
    """Whether codes are wrong beside ties alone, which an error of some ulps decides, and not of chance or of a rule.

    Chance: where most values lie there, so does any wrong code. A rule: it decides them all.
    """
    with np.errstate(all="ignore"):
        low, high = (
            encoded(facts, np.asarray(scaled * np.float32(1 + way * ulps * ULP), np.float32)) for way in (-1, 1)
        )
    wrong = int((encoded(facts, scaled) != emitted.codes).sum())
    beside = int((low != high).sum())
    if wrong >= FEW and wrong > MOSTLY * beside:
        return False
    return not wrong or (beside / scaled.size) ** wrong <= CHANCE


def power_below(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Powers of two that are the next below, where the next above is due."""
    return _power(facts, tensor, emitted, "rounded down", 1.0)


def power_nearest(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Powers of two that are nearest, where the next above is due."""
    return _power(facts, tensor, emitted, "rounded to nearest", 0.75)


def exponent_of_amax(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The exponent of the amax less that of the largest value, whatever the rest of the two numbers is."""
    rule = computed(facts, emitted)
    if rule is None or (rule.dtype != "ue8m0" and rule.derive != "power_of_two"):
        return None
    amax = grouped(bounded(rule, largest_magnitudes(rule, facts.values(tensor))))
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(amax)
        less = int(np.frexp(np.float32(rule.maximum))[1])
        scale = np.ldexp(np.float32(1), np.clip(exponent - less, -127, 127))
        scale = np.where(np.isfinite(amax) & (amax > 0), scale, power_of_two_above(amax))
    kept = np.asarray(round_to(np.asarray(scale, np.float32), rule.dtype), np.float32)
    return Made(kept, f"scales are the amax's power of two less that of {rule.maximum:g}, where the next above is due")


def _power(facts: Facts, tensor: Tensor, emitted: Stored, words: str, up_from: float) -> Made | None:
    """Quotients of m * 2^e, ½ <= m < 1, as 2^e where m is at least `up_from`, else as 2^(e - 1)."""
    rule = computed(facts, emitted)
    if rule is None or (rule.dtype != "ue8m0" and rule.derive != "power_of_two"):
        return None
    exact = replace(rule, dtype="fp32", derive="divide" if rule.derive == "power_of_two" else rule.derive)
    quotient = grouped(right_scales(exact, facts.values(tensor)))
    with np.errstate(all="ignore"):
        mantissa, exponent = np.frexp(quotient)
        found = np.ldexp(np.float32(1), exponent - (mantissa < up_from))
        # What is no number between the least and the greatest is rounded as the contract has it.
        scale = np.where((quotient > 0) & np.isfinite(quotient), found, power_of_two_above(quotient))
    scale = np.asarray(round_to(np.asarray(scale, np.float32), rule.dtype), np.float32)
    return Made(grouped(scale), f"scales are {words} to a power of two, where they are due rounded up")


def _given(facts: Facts, tensor: Tensor) -> Floats | None:
    return None if facts.contract.scale is None else facts.given(tensor)


def wrong_scales(facts: Facts, tensor: Tensor) -> Mask:
    """Which scales are neither exact nor legal; of shape `[0, 0]` where none are kept."""
    found = facts.right(tensor).scales
    return np.zeros((0, 0), np.bool_) if found is None else ~found
