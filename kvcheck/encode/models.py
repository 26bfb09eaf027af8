"""Ways to encode, part by part: what each makes of every input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.encode.steps import INFINITY, MAGNITUDE, Patterns, Rounding, Steps, least_normal, narrowed, steps
from kvcheck.formats.spec import Format

Codes: TypeAlias = npt.NDArray[np.uint8]
Flags: TypeAlias = npt.NDArray[np.bool_]
Flush: TypeAlias = Literal["none", "inputs", "results"]
Carry: TypeAlias = Literal["none", "odd", "all"]
Overflow: TypeAlias = Literal["saturate", "nan", "infinity_to_nan"]
Nan: TypeAlias = Literal["canonical", "keep_sign", "largest", "signed_largest", "zero"]
NegativeZero: TypeAlias = Literal["keep", "drop", "drop_zero", "drop_underflow"]


@dataclass(frozen=True)
class Within:
    """How a magnitude that is not beyond the largest value becomes a step above zero."""

    #: Which step is taken
    rounding: Rounding = "rne"
    #: When rounding up to a power of two forgets to raise the exponent: never, always, or where its field is odd, as
    #: an encoder does that puts exponent and mantissa together by a bitwise or
    lost_carry: Carry = "none"
    #: Whether subnormals become zero: by the input, or by what it rounds to
    flush: Flush = "none"
    #: No step beyond this one is given; None for none
    clamp: int | None = None
    #: From this step on, the largest is given; None for none
    saturates_from: int | None = None
    #: From the input of this magnitude pattern on, the largest is given; None for none
    saturates_at: int | None = None

    def steps(self, patterns: Patterns, number_format: Format) -> Steps:
        """The steps of fp32 patterns."""
        found = self.rounded(patterns, number_format)
        if self.clamp is not None:
            found = np.minimum(found, self.clamp)
        if self.saturates_from is not None:
            found = np.where(found >= self.saturates_from, number_format.largest, found)
        if self.saturates_at is not None:
            found = np.where((patterns & MAGNITUDE) >= self.saturates_at, number_format.largest, found)
        return found

    def rounded(self, patterns: Patterns, number_format: Format) -> Steps:
        """The steps before any limit; beyond the largest is what overflows."""
        found = carried = steps(patterns, number_format, self.rounding)
        if self.lost_carry != "none":
            carried = np.where(self.carries(patterns, number_format), found - (1 << number_format.mantissa_bits), found)
        return np.where(self.flushes(patterns, number_format, found), 0, carried)

    def carries(self, patterns: Patterns, number_format: Format) -> Flags:
        """Where rounding up should raise the exponent, and does not."""
        found = steps(patterns, number_format, self.rounding)
        # Of two steps the first is another conversion's, and sound.
        low = steps(narrowed(patterns, self.rounding), number_format, "rtz")
        whole = found & ((1 << number_format.mantissa_bits) - 1) == 0
        lost = low >> number_format.mantissa_bits & 1 == 1 if self.lost_carry == "odd" else np.ones_like(whole)
        return np.asarray((found > low) & whole & lost)

    def flushes(self, patterns: Patterns, number_format: Format, found: Steps) -> Flags:
        """Where a subnormal becomes zero."""
        if self.flush == "inputs":
            return is_subnormal(patterns, number_format)
        if self.flush == "results":
            return np.asarray(found < (1 << number_format.mantissa_bits))
        return np.zeros(found.shape, dtype=np.bool_)


def is_negative(patterns: Patterns) -> Flags:
    """Whether the sign bit is set."""
    return np.asarray(patterns >> np.uint32(31) == 1)


def is_nan(patterns: Patterns) -> Flags:
    """Whether an input is NaN."""
    return np.asarray(patterns & MAGNITUDE > INFINITY)


def is_subnormal(patterns: Patterns, number_format: Format) -> Flags:
    """Whether an input lies below the least normal value; never for integers."""
    return np.asarray(patterns & MAGNITUDE < least_normal(number_format))


def signed(found: Steps, negative: Flags, number_format: Format) -> Codes:
    """Codes of steps from 0 to the largest, -0 as +0."""
    minus = (256 - found) & 0xFF if number_format.integer else found | 0x80
    return np.where(negative & (found > 0), minus, found).astype(np.uint8)


def is_zero(codes: Codes, number_format: Format) -> Flags:
    """Whether codes are +0 or -0."""
    return np.asarray((codes == 0) | ((codes == 0x80) & number_format.negative_zero))


def is_number(codes: Codes, number_format: Format) -> Flags:
    """Whether codes are finite values that an encoder of the format emits."""
    if number_format.integer:
        return np.ones(codes.shape, dtype=np.bool_)
    usable = (codes & 0x7F) <= number_format.largest
    return np.asarray(usable & ((codes != 0x80) | number_format.negative_zero))


def overflow_codes(overflow: Overflow, nan: Nan, patterns: Patterns, number_format: Format) -> Codes | None:
    """The codes of inputs that round beyond the largest value; None where the format has no such policy."""
    negative = is_negative(patterns)
    if overflow == "saturate":
        return saturated(patterns, number_format)
    unordered = nan_codes(nan, negative, number_format)
    if number_format.nan is None or unordered is None:
        return None
    if overflow == "nan" and number_format.infinity is not None:
        return np.where(negative, number_format.infinity | 0x80, number_format.infinity).astype(np.uint8)
    infinite = patterns & MAGNITUDE == INFINITY
    return np.where(infinite | (overflow == "nan"), unordered, saturated(patterns, number_format)).astype(np.uint8)


def saturated(patterns: Patterns, number_format: Format) -> Codes:
    """The largest value of each input's sign."""
    return np.where(is_negative(patterns), number_format.least, number_format.largest).astype(np.uint8)


def nan_codes(nan: Nan, negative: Flags, number_format: Format) -> Codes | None:
    """The codes of NaN inputs by their sign; None where the format has no such policy."""
    if nan in ("canonical", "keep_sign"):
        if nan == "keep_sign" and number_format.negative_nan is None:
            return None
        plus = number_format.nan or 0
        minus = plus if nan == "canonical" else number_format.negative_nan or plus
        return np.where(negative, minus, plus).astype(np.uint8)
    if nan == "zero":
        return np.zeros(negative.shape, dtype=np.uint8)
    minus = number_format.largest if nan == "largest" else number_format.least
    return np.where(negative, minus, number_format.largest).astype(np.uint8)
