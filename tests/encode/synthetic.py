"""Encoders made of parts, in plain float64 arithmetic: what the classifier is to take apart again.

It shares nothing with `kvcheck.encode` but the names of the parts, and nothing with the oracles but the formats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvcheck.formats.decode import decode
from kvcheck.formats.spec import Format

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Parts:
    """An encoder, part by part."""

    rounding: str = "rne"
    overflow: str = "saturate"
    nan: str = "canonical"
    negative_zero: str = "keep"
    flush: str = "none"
    lost_carry: str = "none"
    clamp: float | None = None
    saturates_from: float | None = None
    saturates_at: float | None = None


def encode(x: Floats, number_format: Format, parts: Parts) -> Codes:
    """The codes of fp32 values."""
    negative = np.signbit(x)
    with np.errstate(all="ignore"):
        value = rounded(np.abs(x).astype(np.float64), negative, number_format, parts)
    positive = decode(np.arange(number_format.largest + 1, dtype=np.uint8), number_format).astype(np.float64)
    over = value > positive[-1]
    if parts.clamp is not None:
        value, over = np.minimum(value, parts.clamp), np.zeros_like(over)
    if parts.saturates_from is not None:
        value = np.where(value >= parts.saturates_from, positive[-1], value)
    if parts.saturates_at is not None:
        early = np.abs(x) >= np.float32(parts.saturates_at)
        value, over = np.where(early, positive[-1], value), np.zeros_like(over)
    index = np.searchsorted(positive, np.minimum(value, positive[-1]))
    codes = with_sign(index, negative, number_format)
    codes = np.where(over, beyond(x, negative, number_format, parts), codes)
    codes = zeros(codes, x, negative & (index == 0), number_format, parts)
    return np.where(np.isnan(x), nans(negative, number_format, parts), codes).astype(np.uint8)


def rounded(magnitude: Doubles, negative: npt.NDArray[np.bool_], number_format: Format, parts: Parts) -> Doubles:
    """Magnitudes as values of a format whose exponents never end."""
    exact = narrowed(magnitude, parts.rounding)
    bits = number_format.mantissa_bits
    exponent = np.frexp(np.where(np.isfinite(exact), exact, 0))[1] - 1
    step = np.zeros_like(exponent) if number_format.integer else np.maximum(exponent, 1 - number_format.bias) - bits
    quotient = np.ldexp(exact, -step)
    down, up = np.floor(quotient), np.ceil(quotient)
    whole = {
        "rtz": down,
        "half_away": np.floor(quotient + 0.5),
        "floor": np.where(negative, up, down),
        "ceil": np.where(negative, down, up),
    }.get(parts.rounding, np.rint(quotient))
    value: Doubles = np.ldexp(whole, step)
    if number_format.integer:
        return value
    least = 2.0 ** (1 - number_format.bias)
    if parts.lost_carry != "none":
        field = np.maximum(exponent + number_format.bias, 0) * (exact >= least)
        lost = (field % 2 == 1) | (parts.lost_carry == "all")
        carried = (np.frexp(value)[1] > np.frexp(exact)[1]) & (exact >= least) & np.isfinite(exact)
        value = np.where(carried & lost, value / 2, value)
        value = np.where((exact < least) & (value == least) & lost, 0, value)
    if parts.flush == "inputs":
        return np.where(magnitude < least, 0, value)
    return np.where(value < least, 0, value) if parts.flush == "results" else value


def narrowed(magnitude: Doubles, rounding: str) -> Doubles:
    """The first of two steps."""
    if rounding == "via_bf16":
        steps = magnitude.astype(np.float32).view(np.uint32).astype(np.int64)
        low = steps & 0xFFFF
        kept = steps >> 16
        kept += (low > 0x8000) | ((low == 0x8000) & (kept & 1 == 1))
        values: Floats = (kept << 16).astype(np.uint32).view(np.float32)
        return values.astype(np.float64)
    if rounding.startswith("via_fp16"):
        half = magnitude.astype(np.float16)
        if rounding == "via_fp16_rtz":
            half = np.where(half.astype(np.float64) > magnitude, np.nextafter(half, np.float16(0)), half)
        return half.astype(np.float64)
    return magnitude


def with_sign(index: npt.NDArray[np.intp], negative: npt.NDArray[np.bool_], number_format: Format) -> Codes:
    """Codes of values by their place above zero."""
    minus = -index % 256 if number_format.integer else index + 0x80
    return np.where(negative, minus, index).astype(np.uint8)


def zeros(codes: Codes, x: Floats, zero: npt.NDArray[np.bool_], number_format: Format, parts: Parts) -> Codes:
    """The zeros of negative inputs."""
    dropped = {"keep": False, "drop": True, "drop_zero": x == 0, "drop_underflow": x != 0}[parts.negative_zero]
    if not number_format.negative_zero:
        dropped = True
    return np.where(zero & dropped, 0, codes).astype(np.uint8)


def beyond(x: Floats, negative: npt.NDArray[np.bool_], number_format: Format, parts: Parts) -> Codes:
    """What is too large."""
    saturated = np.where(negative, number_format.least, number_format.largest).astype(np.uint8)
    if parts.overflow == "saturate":
        return saturated
    if parts.overflow == "nan" and number_format.infinity is not None:
        return np.where(negative, number_format.infinity | 0x80, number_format.infinity).astype(np.uint8)
    made = nans(negative, number_format, parts)
    return made if parts.overflow == "nan" else np.where(np.isinf(x), made, saturated).astype(np.uint8)


def nans(negative: npt.NDArray[np.bool_], number_format: Format, parts: Parts) -> Codes:
    """What NaN becomes."""
    plus = number_format.nan or 0
    pairs = {
        "canonical": (plus, plus),
        "keep_sign": (plus, number_format.negative_nan or plus),
        "zero": (0, 0),
        "largest": (number_format.largest, number_format.largest),
        "signed_largest": (number_format.largest, number_format.least),
    }
    first, second = pairs[parts.nan]
    return np.where(negative, second, first).astype(np.uint8)
