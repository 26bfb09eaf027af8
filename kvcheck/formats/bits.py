"""The fast oracle: fp32 to codes by integer arithmetic on bit patterns, and a table of it.

It shares no code with `kvcheck.formats.exact`. The rule: round first, as if exponents had no end, to the mantissa
or the subnormal step; then look whether the result is beyond the largest value.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.errors import FormatError
from kvcheck.formats.cast import bf16_patterns, fp16_patterns
from kvcheck.formats.spec import Format, NanSign, NegativeZero, Overflow, Policy, Rounding, check_policy

Codes: TypeAlias = npt.NDArray[np.uint8]
Values: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.uint32]
Integers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

_BLOCK = 1 << 18
#: Patterns of which each step takes longer to begin than to do.
_FEW = 1 << 12


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

    NaN becomes the policy's NaN code (0 in int8). Infinity is beyond the largest value. -0 keeps its sign unless
    `negative_zero="drop"` or the format has none. Raises FormatError for other dtypes, unknown formats and policies.
    """
    return encode_by(values, number_format, Policy(rounding, overflow, nan, negative_zero))


def encode_by(values: Values, number_format: str | Format, policy: Policy) -> Codes:
    """`encode`, by a policy as a whole. Raises FormatError likewise."""
    table = _checked(number_format, policy)
    patterns = _patterns(values)
    if policy.rounding == "via_bf16":
        patterns = bf16_patterns(patterns)
    elif policy.rounding in ("via_fp16_rne", "via_fp16_rtz"):
        patterns = fp16_patterns(patterns, toward_zero=policy.rounding == "via_fp16_rtz")
    return _look_up(patterns, table).reshape(values.shape)


def _patterns(values: Values) -> npt.NDArray[np.uint32]:
    """The fp32 bit patterns, flat. Raises FormatError where `values` are neither float32 nor uint32."""
    if values.dtype not in (np.float32, np.uint32):
        raise FormatError(f"cannot encode {values.dtype}; expected float32 values or uint32 bit patterns")
    return np.ascontiguousarray(values).reshape(-1).view(np.uint32)


def _look_up(patterns: npt.NDArray[np.uint32], table: Codes) -> Codes:
    """The table's entry for each pattern's upper half and whether its lower half is zero, block by block."""
    if patterns.size <= _FEW:
        few = patterns >> np.uint32(16) << np.uint32(1)
        few |= (patterns & np.uint32(0xFFFF)) != 0
        found: Codes = table[few]
        return found
    codes = np.empty(patterns.size, dtype=np.uint8)
    size = min(_BLOCK, patterns.size)
    upper, sticky, index = np.empty(size, np.uint32), np.empty(size, np.uint32), np.empty(size, np.intp)
    for start in range(0, patterns.size, _BLOCK):
        block = patterns[start : start + _BLOCK]
        part = slice(0, block.size)
        np.bitwise_and(block, np.uint32(0xFFFF), out=sticky[part])
        np.minimum(sticky[part], np.uint32(1), out=sticky[part])
        np.right_shift(block, np.uint32(16), out=upper[part])
        np.left_shift(upper[part], np.uint32(1), out=upper[part])
        np.bitwise_or(upper[part], sticky[part], out=upper[part])
        index[part] = upper[part]
        np.take(table, index[part], out=codes[start : start + block.size], mode="wrap")
    return codes


@lru_cache(maxsize=64)
def _checked(number_format: str | Format, policy: Policy) -> Codes:
    """The table of a format, once the policy fits it. Raises FormatError."""
    return _table(check_policy(number_format, policy), policy)


@lru_cache(maxsize=64)
def _table(number_format: Format, policy: Policy) -> Codes:
    """The codes of 2^17 patterns: each upper half with a lower half of zero, then of one.

    Two patterns that agree in the upper half and in whether the lower half is zero have the same code: the upper
    half holds 7 bits of the mantissa, and no format here keeps more than 3 bits of it, or, as an integer below 128,
    6 and the half beside them. So the lower half never does more than break a tie.
    """
    index = np.arange(1 << 17, dtype=np.int64)
    codes = _encode_patterns((index >> 1) << 16 | (index & 1), number_format, policy)
    codes.setflags(write=False)
    return codes


def _encode_patterns(patterns: Integers, number_format: Format, policy: Policy) -> Codes:
    """The codes of fp32 bit patterns, held in int64. Two-step roundings have made their first step already."""
    # Lift to significand * 2^exponent.
    negative = (patterns >> 31) == 1
    magnitude = patterns & 0x7FFFFFFF
    field = magnitude >> 23
    significand = np.where(field > 0, magnitude & 0x7FFFFF | 0x800000, magnitude & 0x7FFFFF)
    exponent = np.maximum(field, 1) - 127 - 23
    # Round to a whole number of the format's steps at that magnitude.
    least_step = number_format.subnormal_step
    step = np.full_like(exponent, least_step)
    if not number_format.integer:
        step = np.maximum(exponent + 23 - number_format.mantissa_bits, least_step)
    steps = _shift_right(significand, step - exponent, policy.rounding)
    # The implicit bit and a carry both raise the exponent field by one: addition does it.
    codes = ((step - least_step) << number_format.mantissa_bits) + steps
    codes = np.where(magnitude == 0x7F800000, 256, codes)
    return _signed(codes, negative, magnitude > 0x7F800000, number_format, policy)


def _shift_right(significand: Integers, shift: Integers, rounding: Rounding) -> Integers:
    """`significand` / 2^shift rounded to an integer. A negative shift is left out: such values are all beyond int8."""
    # Beyond 25 every significand, being below 2^24, is less than half.
    shift = np.clip(shift, 0, 25)
    kept = significand >> shift
    rest = (significand & ((1 << shift) - 1)) << 1
    half = 1 << shift
    if rounding == "rtz":
        up = np.zeros_like(kept, dtype=np.bool_)
    elif rounding == "half_away":
        up = rest >= half
    else:
        up = (rest > half) | ((rest == half) & ((kept & 1) == 1))
    return np.asarray(kept + up, dtype=np.int64)


def _signed(codes: Integers, negative: Flags, nan: Flags, number_format: Format, policy: Policy) -> Codes:
    """Magnitude codes without bound, given sign, overflow, NaN and -0 as the policy says."""
    positive_nan = number_format.nan or 0
    negative_nan = (number_format.negative_nan or 0) if policy.nan == "keep_sign" else positive_nan
    # Overflow.
    over, under = number_format.largest, number_format.least
    if policy.overflow == "nan":
        over, under = positive_nan, negative_nan
        if number_format.infinity is not None:
            over, under = number_format.infinity, number_format.infinity | 0x80
    # Sign.
    drop = policy.negative_zero == "drop" or not number_format.negative_zero
    minus = (256 - codes) & 0xFF if number_format.integer else codes | 0x80
    minus = np.where((codes == 0) & drop, 0, minus)
    lowest = 256 - number_format.least if number_format.integer else number_format.least & 0x7F
    minus = np.where(codes > lowest, under, minus)
    plus = np.where(codes > number_format.largest, over, codes)
    signed = np.where(negative, minus, plus)
    return np.where(nan, np.where(negative, negative_nan, positive_nan), signed).astype(np.uint8)
