"""Scales by another rule than the contract's: another maximum, least value, rounding or arithmetic."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from kvcheck.contract import Computed
from kvcheck.diagnose.facts import Facts, Floats, Mask, Stored
from kvcheck.diagnose.groups import ULP, encoded
from kvcheck.diagnose.scale_fault import Form, Made
from kvcheck.formats.apply import apply_scale
from kvcheck.formats.cast import power_of_two_above, round_to
from kvcheck.formats.scale import bounded, derived, element_scales, largest_magnitudes, right_scales
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
#: Unlike scales that show a constant which was added to all.
SOME = 2
#: How likely codes that went wrong by chance may be to lie beside ties all of them.
CHANCE = 0.02
#: Digits of a constant that somebody wrote.
WRITTEN = 3


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


def no_least(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Nothing that keeps a scale from zero."""
    rule = computed(facts, emitted)
    if rule is None:
        return None
    says = "scales have no least value: rows of zeros, or of less than it, get smaller ones"
    return by_rule(replace(rule, eps=0.0, zero_row=None), facts.values(tensor), says)


def other_least(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """A larger least value, recovered from the wrong scales that are all one, where unlike ones are due.

    Or, where those that are due are alike as well, where it is a number that somebody wrote.
    """
    rule = computed(facts, emitted)
    if rule is None or emitted.scale is None:
        return None
    wrong, due = _wrong(facts, tensor), facts.own(tensor).scale
    found = np.unique(emitted.scale[wrong])
    if len(found) != 1 or not np.isfinite(found[0]) or found[0] <= 0 or wrong.sum() < 2:
        return None
    least = _shortest(float(found[0]) * (1.0 if rule.eps_on == "scale" else rule.maximum))
    if len(np.unique(due[wrong])) < 2 and not _written(least):
        return None
    says = f"scales have a least value of {least:g} on the {rule.eps_on}, where {rule.eps:g} is due"
    return by_rule(replace(rule, eps=least), facts.values(tensor), says, least=least, due=rule.eps)


def least_of_the_other(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The least value of the amax taken for that of the scale, or the reverse."""
    rule = computed(facts, emitted)
    if rule is None or not rule.eps:
        return None
    side = "scale" if rule.eps_on == "amax" else "amax"
    says = f"scales have their least value, {rule.eps:g}, on the {side}; it is due on the {rule.eps_on}"
    return by_rule(replace(rule, eps_on=side), facts.values(tensor), says, least=rule.eps)


def least_added(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """A small number added to every scale, or to every amax, where the larger of the two is due."""
    rule = computed(facts, emitted)
    if rule is None or emitted.scale is None or rule.dtype != "fp32":
        return None
    amax = largest_magnitudes(rule, facts.values(tensor))
    plain = grouped(derived(rule.derive, amax, np.float32(rule.maximum)))
    some = np.isfinite(emitted.scale) & np.isfinite(plain) & (emitted.scale > 0)
    if plain.shape != emitted.scale.shape or not some.any():
        return None
    apart = some & (np.abs(emitted.scale - plain) > np.abs(plain) * np.float32(2 * UNDECLARED_ULPS * ULP))
    if len(np.unique(plain[apart])) < SOME:
        return None  # whatever is off by so little is off by an arithmetic
    # The smallest scale shows the number with most of its bits.
    smallest = np.argmin(np.where(some, emitted.scale, np.inf))
    found = float(emitted.scale.flat[smallest]) - float(plain.flat[smallest])
    error = 8 * ULP * float(emitted.scale.flat[smallest]) / abs(found) if found else 0.0
    for constant, what in ((found, "scale"), (found * rule.maximum, "amax")):
        least = _shortest(constant, error)
        if not 0 < least < 1:
            continue
        with np.errstate(all="ignore"):
            on_amax = np.asarray(amax + np.float32(least), np.float32)
            scale = (
                grouped(derived(rule.derive, on_amax, np.float32(rule.maximum)))
                if what == "amax"
                else np.asarray(plain + np.float32(least), np.float32)
            )
            near = np.abs(emitted.scale - scale) <= np.abs(scale) * np.float32(UNDECLARED_ULPS * ULP)
        if near[some].all():
            says = f"scales have {least:g} added to the {what}, where the larger of the two is due"
            return Made(grouped(scale), says, {"added": least}, ulps=UNDECLARED_ULPS)
    return None


def no_more_than(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """A largest scale, recovered from the wrong ones that are all one, less than is due."""
    rule = computed(facts, emitted)
    if rule is None or emitted.scale is None:
        return None
    wrong, due = _wrong(facts, tensor), grouped(right_scales(rule, facts.values(tensor)))
    found = np.unique(emitted.scale[wrong])
    if len(found) != 1 or not found[0] > 0 or due.shape != wrong.shape or len(np.unique(due[wrong])) < 2:
        return None
    limit = found[0]
    if not (due[wrong] > limit).all():
        return None
    says = f"scales are no more than {limit:g}, and larger ones are due"
    return Made(np.minimum(due, limit), says, {"limit": float(limit)}, ulps=rule.declared_ulps)


def zero_rows_have(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """A scale of their own for rows of zeros."""
    rule = computed(facts, emitted)
    if rule is None or emitted.scale is None:
        return None
    amax = grouped(largest_magnitudes(rule, facts.values(tensor)))
    zero = (amax == 0) if amax.shape == emitted.scale.shape else np.zeros(emitted.scale.shape, np.bool_)
    found = np.unique(emitted.scale[zero])
    if len(found) != 1 or not np.isfinite(found[0]):
        return None
    value = float(found[0])
    # One row of zeros may have any scale for any reason.
    if zero.sum() < 2 and not _written(_shortest(value)) and not _written(_shortest(value * rule.maximum)):
        return None
    says = f"scales are {value:g} for rows of zeros"
    return by_rule(replace(rule, zero_row=value), facts.values(tensor), says, zero_row=value)


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


def _wrong(facts: Facts, tensor: Tensor) -> Mask:
    found = facts.right(tensor).scales
    return np.zeros((0, 0), np.bool_) if found is None else ~found


def _written(value: float) -> bool:
    """Whether a constant has so few digits that somebody may have written it."""
    return value == float(f"{value:.{WRITTEN - 1}e}")


def _shortest(value: float, error: float = 8 * ULP) -> float:
    """The number of fewest decimal digits that is `value` to within a share `error` of it."""
    for digits in range(7):
        short = float(f"{value:.{digits}e}")
        if abs(short - value) <= error * abs(value):
            return short
    return value
