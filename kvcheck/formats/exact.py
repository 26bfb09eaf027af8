"""The slow oracle: fp32 to codes by search in a table of exactly decoded values. It shares no code with `bits`.

Between neighbouring values lies a threshold: the point from which the upper one is taken. All values are decoded
as fractions, all thresholds and all fp32 inputs are exact in float64, so that every comparison is exact.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.errors import FormatError
from kvcheck.formats.spec import Format, NanSign, NegativeZero, Overflow, Policy, Rounding, check_policy

Codes: TypeAlias = npt.NDArray[np.uint8]
Values: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.uint32]
Doubles: TypeAlias = npt.NDArray[np.float64]
Steps: TypeAlias = npt.NDArray[np.int64]


def encode(
    values: Values,
    number_format: str | Format = "e4m3fn",
    *,
    rounding: Rounding = "rne",
    overflow: Overflow = "saturate",
    nan: NanSign = "canonical",
    negative_zero: NegativeZero = "keep",
) -> Codes:
    """The codes of fp32 values (float32) or of fp32 bit patterns (uint32), in the same shape.

    Means what `kvcheck.formats.bits.encode` means, NaN, infinities and -0 included, and raises the same FormatError.
    """
    return encode_by(values, number_format, Policy(rounding, overflow, nan, negative_zero))


def encode_by(values: Values, number_format: str | Format, policy: Policy) -> Codes:
    """`encode`, by a policy as a whole. Raises FormatError likewise."""
    found = check_policy(number_format, policy)
    if values.dtype == np.uint32:
        values = values.view(np.float32)
    elif values.dtype != np.float32:
        raise FormatError(f"cannot encode {values.dtype}; expected float32 values or uint32 bit patterns")
    with np.errstate(invalid="ignore"):
        exact = _first_step(np.abs(values).astype(np.float64), policy.rounding)
    points, taken = thresholds(found, policy.rounding)
    # No fp32 value lies strictly between a threshold and the float64 just below it.
    limits = np.where(taken, np.nextafter(points, 0), points)
    steps = np.searchsorted(limits, exact, side="left").astype(np.int64)
    return codes_of_steps(steps, np.signbit(values), np.isnan(values), found, policy)


def thresholds(number_format: Format, rounding: Rounding) -> tuple[Doubles, npt.NDArray[np.bool_]]:
    """Where magnitudes pass from one value to the next, ascending, and whether that point itself passes.

    A magnitude that passes n thresholds is the n-th value above zero; to pass the last is to be beyond the largest.
    """
    return _thresholds(number_format, "rne" if rounding.startswith("via_") else rounding)


@lru_cache(maxsize=32)
def _thresholds(number_format: Format, rounding: str) -> tuple[Doubles, npt.NDArray[np.bool_]]:
    """`thresholds`, where two-step roundings are to nearest even."""
    values = [_value(code, number_format) for code in range(number_format.largest + 2)]
    points = [upper if rounding == "rtz" else (lower + upper) / 2 for lower, upper in pairwise(values)]
    # A tie goes to the even code: it passes where the upper code is even.
    taken = [code % 2 == 0 if rounding == "rne" else True for code in range(1, len(values))]
    doubles = np.array([float(point) for point in points])
    assert [Fraction(point) for point in doubles.tolist()] == points, "every threshold is exact in float64"
    return doubles, np.array(taken)


def _value(code: int, number_format: Format) -> Fraction:
    """The value that a positive code has, or would have were exponents endless."""
    if number_format.integer:
        return Fraction(code)
    implicit = 1 << number_format.mantissa_bits
    field, mantissa = divmod(code, implicit)
    # Zero in the field means the least exponent without the implicit one.
    significand = Fraction(mantissa + implicit * (field > 0), implicit)
    exponent = max(field, 1) - number_format.bias
    return significand * (Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent))


def _first_step(magnitudes: Doubles, rounding: Rounding) -> Doubles:
    """The first step of a two-step rounding of magnitudes: to fp16 or bf16, still in float64."""
    if rounding == "via_bf16":
        return _narrowed(magnitudes, 8, -126, float(2**128 - 2**120), toward_zero=False)
    if rounding in ("via_fp16_rne", "via_fp16_rtz"):
        return _narrowed(magnitudes, 11, -14, 65504.0, toward_zero=rounding == "via_fp16_rtz")
    return magnitudes


def _narrowed(magnitudes: Doubles, precision: int, least: int, largest: float, *, toward_zero: bool) -> Doubles:
    """Magnitudes in a binary type of `precision` bits, 2^least the smallest normal, `largest` the largest."""
    _, exponent = np.frexp(magnitudes)
    step = np.maximum(exponent - 1, least) - (precision - 1)
    # Scaling by a power of two is exact, and rint rounds to nearest even.
    scaled = np.ldexp(magnitudes, -step)
    rounded = np.ldexp(np.trunc(scaled) if toward_zero else np.rint(scaled), step)
    beyond = np.isfinite(magnitudes) & (rounded > largest)
    return np.where(beyond, largest if toward_zero else np.inf, rounded)


def codes_of_steps(
    steps: Steps,
    negative: npt.NDArray[np.bool_],
    nan: npt.NDArray[np.bool_],
    number_format: Format,
    policy: Policy,
) -> Codes:
    """The codes of the `steps`-th value above or below zero; one beyond the largest means overflow."""
    plus, minus = _rulers(number_format, policy)
    codes = np.where(negative, minus[steps], plus[steps])
    if number_format.nan is None:
        unordered = np.zeros_like(codes)
    elif policy.nan == "keep_sign" and number_format.negative_nan is not None:
        unordered = np.where(negative, np.uint8(number_format.negative_nan), np.uint8(number_format.nan))
    else:
        unordered = np.full_like(codes, number_format.nan)
    return np.where(nan, unordered, codes)


@lru_cache(maxsize=64)
def _rulers(number_format: Format, policy: Policy) -> tuple[Codes, Codes]:
    """The codes upwards from zero and downwards from it, each ending with what overflow gives."""
    overflow = number_format.largest + 1
    plus = [*range(overflow), number_format.largest]
    if number_format.integer:
        minus = [-step % 256 for step in range(overflow + 1)]
        lowest = minus.index(number_format.least)
    else:
        minus = [0x80 + step for step in range(overflow + 1)]
        lowest = number_format.least - 0x80
    minus[lowest:] = [number_format.least] * len(minus[lowest:])
    if policy.negative_zero == "drop" or not number_format.negative_zero:
        minus[0] = 0
    if policy.overflow == "nan":
        if number_format.infinity is not None:
            plus[-1], minus[-1] = number_format.infinity, 0x80 + number_format.infinity
        else:
            assert number_format.nan is not None, "a format without NaN cannot overflow to it"
            signed = number_format.negative_nan if policy.nan == "keep_sign" else None
            plus[-1], minus[-1] = number_format.nan, number_format.nan if signed is None else signed
    return np.array(plus, dtype=np.uint8), np.array(minus, dtype=np.uint8)
