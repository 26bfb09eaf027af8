"""Scales with another least value than the contract's, with none, or with a number added to each."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from kvcheck.contract import Computed
from kvcheck.diagnose.facts import Facts, Stored
from kvcheck.diagnose.groups import ULP, near
from kvcheck.diagnose.scale_fault import Made
from kvcheck.diagnose.scale_rules import UNDECLARED_ULPS, by_rule, computed, grouped, wrong_scales
from kvcheck.formats.scale import derived, largest_magnitudes
from kvcheck.schema import Tensor

#: Unlike scales that show a constant which was added to all.
SOME = 2
#: Digits of a constant that somebody wrote.
WRITTEN = 3


def no_least(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Nothing that keeps a scale from zero, or nothing added where something is due."""
    rule = computed(facts, emitted)
    if rule is None:
        return None
    says = "scales have no least value: rows of zeros, or of less than it, get smaller ones"
    if _adds(rule):
        says = f"scales have nothing added; {rule.eps:g} is due, added to each {rule.eps_on}"
    return by_rule(replace(rule, eps=0.0, zero_row=None), facts.values(tensor), says)


def other_least(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """A larger least value, recovered from the wrong scales that are all one, where unlike ones are due.

    Or, where those that are due are alike as well, where it is a number that somebody wrote.
    """
    rule = computed(facts, emitted)
    if rule is None or emitted.scale is None or _adds(rule):
        return None
    wrong, due = wrong_scales(facts, tensor), facts.own(tensor).scale
    found = np.unique(emitted.scale[wrong])
    if len(found) != 1 or not np.isfinite(found[0]) or found[0] <= 0 or wrong.sum() < 2:
        return None
    least = _shortest(float(found[0]) * (1.0 if rule.eps_on == "scale" else rule.maximum))
    if len(np.unique(due[wrong])) < 2 and not _written(least):
        return None
    says = f"scales have a least value of {least:g} on the {rule.eps_on}, where {rule.eps:g} is due"
    return by_rule(replace(rule, eps=least), facts.values(tensor), says, least=least, due=rule.eps)


def least_of_the_other(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The least value of the amax taken for that of the scale, or the reverse; so too what is added."""
    rule = computed(facts, emitted)
    if rule is None or not rule.eps:
        return None
    side = "scale" if rule.eps_on == "amax" else "amax"
    says = f"scales have their least value, {rule.eps:g}, on the {side}; it is due on the {rule.eps_on}"
    if _adds(rule):
        says = f"scales have {rule.eps:g} added to the {side}; it is due on the {rule.eps_on}"
    return by_rule(replace(rule, eps_on=side), facts.values(tensor), says, least=rule.eps)


def larger_of_the_two(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """A least value where the same number is due, added."""
    rule = computed(facts, emitted)
    if rule is None or not _adds(rule):
        return None
    says = f"scales have {rule.eps:g} as the least value of the {rule.eps_on}; it is due, added to each"
    return by_rule(replace(rule, eps_as="least"), facts.values(tensor), says, least=rule.eps)


def least_added(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """A small number added to every scale, or to every amax, where the larger of the two, or another, is due."""
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
        if not 0 < least < 1 or (_adds(rule) and (least, what) == (rule.eps, rule.eps_on)):
            continue
        with np.errstate(all="ignore"):
            on_amax = np.asarray(amax + np.float32(least), np.float32)
            scale = (
                grouped(derived(rule.derive, on_amax, np.float32(rule.maximum)))
                if what == "amax"
                else np.asarray(plain + np.float32(least), np.float32)
            )
        if near(emitted.scale, scale, UNDECLARED_ULPS)[some].all():
            due = f"{rule.eps:g} more than the {rule.eps_on}" if _adds(rule) else "the larger of the two"
            says = f"scales have {least:g} added to the {what}, where {due} is due"
            return Made(grouped(scale), says, {"added": least}, ulps=UNDECLARED_ULPS)
    return None


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


def _adds(rule: Computed) -> bool:
    return rule.eps_as == "added" and rule.eps > 0


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
