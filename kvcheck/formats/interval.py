"""Which codes and scales are legal under arithmetic that declares an error in ulps.

A scaled value may be any real number of q·(1 ± u·2^-23), q being the real quotient or product and u the declared
ulps: u·2^-23 of a number is at least u ulps of fp32. Rounding is monotone, so that the two ends decide. Ends are
compared with ties exactly, in float64, as (t·d - n) against ± n·u·2^-23 for a threshold t and q = n / d: n has 48 bits
at most and u 5 (or is 32), t·d has 48 bits at most, and where t·d is anywhere near n their difference is exact
(Sterbenz's lemma); elsewhere it is far larger than the error.
"""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.contract import Computed, Contract
from kvcheck.formats.apply import (
    apply_scale,
    contract_format,
    contract_policy,
    multiplies,
    right_codes,
    uses_reciprocal,
)
from kvcheck.formats.cast import power_of_two_above, round_to
from kvcheck.formats.exact import codes_of_steps, thresholds
from kvcheck.formats.scale import bounded, finished, largest_magnitudes, right_scales

Floats: TypeAlias = npt.NDArray[np.float32]
Doubles: TypeAlias = npt.NDArray[np.float64]
Steps: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.uint8]
Flags: TypeAlias = npt.NDArray[np.bool_]

_ULP = 2.0**-23
_SUBNORMAL_STEP = 2.0**-149


def code_bounds(contract: Contract, x: Floats, scale: Floats | None) -> tuple[Codes, Codes]:
    """The codes of the least and of the greatest value that `apply` may give for `x` `[T, H, D]` under `scale`.

    The error is far smaller than the distance between two ties, so that no third code lies between: a code is legal
    iff it is one of the two or `right_codes`'s own. Both are the right code where the arithmetic is exact, and where
    the scaled value is zero, infinite or NaN. Raises FormatError; the contract must be one that `is_supported`.
    """
    right = right_codes(contract, x, scale)
    if contract.declared_ulps == 0:
        return right, right
    with np.errstate(all="ignore"):
        top, bottom = _fraction(contract, x, scale)
        scaled = apply_scale(contract, x, scale)
        inner = _steps(contract, top, bottom, -contract.declared_ulps)
        outer = _steps(contract, top, bottom, contract.declared_ulps)
    negative = np.signbit(scaled)
    least, greatest = (
        codes_of_steps(steps, negative, np.isnan(scaled), contract_format(contract), contract_policy(contract))
        for steps in (np.where(negative, outer, inner), np.where(negative, inner, outer))
    )
    # An infinite product or dividend has no ends to compare.
    finite = np.isfinite(top)
    return np.where(finite, least, right), np.where(finite, greatest, right)


def _fraction(contract: Contract, x: Floats, scale: Floats | None) -> tuple[Doubles, Doubles]:
    """Magnitudes whose real quotient is the scaled value that the error is counted from. Both are exact."""
    assert scale is not None, "rows stored as they are declare no error"
    top = np.abs(x).astype(np.float64)
    factor = np.broadcast_to(np.abs(scale), x.shape).astype(np.float64)
    if contract.apply == "multiply_reciprocal" and uses_reciprocal(contract):
        factor = (1 / factor).astype(np.float32).astype(np.float64)
        return top * factor, np.ones_like(top)
    if multiplies(contract):
        return top * factor, np.ones_like(top)
    return top, factor


def _steps(contract: Contract, top: Doubles, bottom: Doubles, ulps: int) -> Steps:
    """How many thresholds the real number top / bottom·(1 + ulps·2^-23) passes.

    Where `bottom` is zero it passes all, where `bottom` is infinite none.
    """
    points, taken = thresholds(contract_format(contract), contract.rounding)
    # One that always passes before them and one that never does behind them.
    points, taken = np.concatenate(([-1.0], points, [np.inf])), np.concatenate(([True], taken, [False]))
    error = top * (ulps * _ULP)

    def passes(steps: Steps) -> Flags:
        over = points[steps] * bottom - top
        passed: Flags = (over < error) | ((over == error) & taken[steps])
        return passed

    # The rounded quotient's place is off by one threshold at most.
    guess = np.clip(np.searchsorted(points, (top + error) / bottom, side="left"), 1, len(points) - 1).astype(np.int64)
    # points[guess - 1] should be the last that passes.
    return guess - 1 + passes(guess) - ~passes(guess - 1)


def scale_bounds(rule: Computed, x: Floats) -> tuple[Floats, Floats]:
    """The least and the greatest scale that `rule` allows for each population of `x` `[T, H, D]`, both included.

    Shaped and held as `right_scales`, which always lies between them. Below fp32's normal numbers an ulp is 2^-149.
    Both are the right scale where the rule is exact, and where the amax, with eps on it, is zero, infinite or
    NaN.
    """
    right = right_scales(rule, x)
    if rule.declared_ulps == 0:
        return right, right
    amax = largest_magnitudes(rule, x)
    top = bounded(rule, amax).astype(np.float64)
    bottom = np.float64(np.float32(rule.maximum))
    if rule.derive == "multiply_reciprocal":
        top, bottom = top * np.float64(np.float32(1) / np.float32(rule.maximum)), np.float64(1)
    with np.errstate(all="ignore"):
        least, greatest = (
            finished(rule, amax, power_of_two_above(end) if rule.derive == "power_of_two" else end)
            for end in _quotient_ends(top, bottom, rule.declared_ulps)
        )
    certain = ~np.isfinite(top) | (top == 0)
    return (
        np.where(certain, right, np.minimum(least, right)),
        np.where(certain, right, np.maximum(greatest, right)),
    )


def _quotient_ends(top: Doubles, bottom: np.float64, ulps: int) -> tuple[Floats, Floats]:
    """The least and the greatest fp32 number within `ulps` of top / bottom."""
    error = np.maximum(top * (ulps * _ULP), bottom * (ulps * _SUBNORMAL_STEP))

    def over(scales: Floats) -> Doubles:
        return np.asarray(scales.astype(np.float64) * bottom - top, dtype=np.float64)

    # Every product of an fp32 number and `bottom` is exact in float64, and rounding is monotone: a rounded end is the
    # fp32 number sought, or its neighbour outside.
    least = np.asarray((top - error) / bottom).astype(np.float32)
    greatest = np.asarray((top + error) / bottom).astype(np.float32)
    return (
        np.where(over(least) < -error, np.nextafter(least, np.float32(np.inf)), least),
        np.where(over(greatest) > error, np.nextafter(greatest, np.float32(-np.inf)), greatest),
    )


def _added_to_powers(rule: Computed) -> bool:
    """Whether scales are powers of two and a number more."""
    return rule.eps_as == "added" and rule.eps_on == "scale" and rule.eps > 0


class LegalScales:
    """The scales that a rule allows for rows: the `right` ones, shaped as `right_scales`, and others close to them."""

    def __init__(self, rule: Computed, x: Floats) -> None:
        """`x` are rows `[T, H, D]`."""
        self.right = right_scales(rule, x)
        self._rule = rule
        self._x = x

    def admits(self, scales: Floats) -> Flags:
        """Whether each of `scales`, shaped as `right`, is allowed.

        The right one is. Others must lie within `scale_bounds` and be values of the rule's dtype, and powers of two
        where it derives those. Any NaN equals any other.
        """
        right = self.right
        same: Flags = (scales.view(np.uint32) == right.view(np.uint32)) | (np.isnan(scales) & np.isnan(right))
        if self._rule.declared_ulps == 0 or same.all():
            return same
        least, greatest = self._bounds
        with np.errstate(all="ignore"):
            possible = round_to(scales, self._rule.dtype) == scales
            if self._rule.derive == "power_of_two" and not _added_to_powers(self._rule):
                possible &= power_of_two_above(scales) == scales
        legal: Flags = same | ((scales >= least) & (scales <= greatest) & possible)
        return legal

    @cached_property
    def _bounds(self) -> tuple[Floats, Floats]:
        return scale_bounds(self._rule, self._x)


def legal_scales(rule: Computed, scales: Floats, x: Floats) -> Flags:
    """Whether each of `scales`, shaped as `right_scales`, is one that the rule allows for `x` (see `LegalScales`)."""
    return LegalScales(rule, x).admits(scales)
