"""Poison: what stands in guards and gaps of source memory, so that a read of it changes the codes.

Typed like the tensor it surrounds. Constants would not do: a maximum ignores NaN, two values that saturate look
alike, and equal guards cannot tell where a byte came from.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from kvcheck.draw.counter import words
from kvcheck.draw.dtypes import field_bits, from_float64, greatest, nan_bits
from kvcheck.schema import Poison

SourceDtype = Literal["bf16", "fp16", "fp32"]
Bits = npt.NDArray[np.unsignedinteger]

#: How far above the nearest tensor's largest magnitude each poison's largest value lies.
LEVELS: dict[Poison, float] = {"A": 4.0, "B": 16.0}


def level(amax: float, dtype: SourceDtype, letter: Poison, ceiling: float | None, floor: float = 0.0) -> float:
    """The power of two that a poison's magnitudes lie below, near a tensor whose largest finite magnitude is `amax`.

    At least `LEVELS` times the amax, unless clipped to the dtype or, where the scale is given, below `ceiling`, the
    largest magnitude that does not saturate; there also high enough for the least to be `floor`.
    """
    wished = max(LEVELS[letter] * (amax if amax > 0 else 1.0), 2 * floor)
    limit = greatest(dtype) if ceiling is None else min(greatest(dtype), ceiling * 0.98)
    below = _power_of_two_below(wished)
    return min(below if below == wished else 2 * below, _power_of_two_below(limit))


def _power_of_two_below(value: float) -> float:
    """The greatest power of two that is not above a positive `value`."""
    mantissa, exponent = math.frexp(value)  # exact: it takes the number apart
    return math.ldexp(0.5, exponent) if mantissa else 0.0


def can_be_seen(amax: float, dtype: SourceDtype, ceiling: float | None) -> bool:
    """Whether every poison value changes what a kernel that reads it would write.

    Under a computed scale it must exceed the tensor's own amax; under a given scale it must only not saturate.
    """
    if ceiling is not None:
        return level(amax, dtype, "A", ceiling) > 0
    return all(level(amax, dtype, letter, None) / 2 > amax for letter in LEVELS)


def stands_out(amax: float, dtype: SourceDtype, ceiling: float, floor: float) -> bool:
    """Whether, under a given scale, every poison value is at least `floor`, from where on it has codes of its own."""
    return all(level(amax, dtype, letter, ceiling, floor) / 2 >= floor for letter in LEVELS)


def poison(key: tuple[str | int, ...], count: int, top: float, dtype: SourceDtype) -> Bits:
    """`count` storage bits of `dtype`: magnitudes uniform in [top / 2, top), either sign. `top` is a power of two."""
    fields = field_bits(dtype)
    binade = _code(top / 2, dtype)
    if binade & fields.mantissa or not binade & fields.exponent:  # subnormal: the binade has fewer bits
        fraction = (words(("poison", *key), 0, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        sign = np.where(_raw(("poison-sign", *key), count, dtype) & fields.one, -1.0, 1.0)
        return from_float64(sign * (top * (0.5 + fraction / 2)), dtype)
    made: Bits = (_raw(("poison", *key), count, dtype) & fields.sign_and_mantissa) | fields.of(binade)
    return made


def with_nan(key: tuple[str | int, ...], bits: Bits, dtype: SourceDtype) -> Bits:
    """`bits` with a quiet NaN in place of about every second value: a maximum ignores it, a sum or a code does not."""
    chosen = (words(("poison-nan", *key), 0, len(bits)) & np.uint64(1)).astype(np.bool_)
    return np.where(chosen, bits.dtype.type(nan_bits(dtype)), bits)


def ordinary(key: tuple[str | int, ...], count: int, top: float, dtype: SourceDtype) -> Bits:
    """`count` storage bits of `dtype` like any data: magnitudes below `top`, over eight binades, either sign.

    The same in every launch.
    """
    fields = field_bits(dtype)
    raw = _raw(("ordinary", *key), count, dtype)
    binade = _code(_power_of_two_below(top) / 2, dtype)
    if binade < 8 * fields.exponent_step:  # too small for eight binades of normal numbers
        few: Bits = (raw & fields.of(max(binade - 1, 1))) | (raw & fields.sign)
        return few
    down = (_raw(("ordinary-binade", *key), count, dtype) & fields.of(7)) * fields.of(fields.exponent_step)
    many: Bits = (raw & fields.sign_and_mantissa) | (fields.of(binade) - down)
    return many


@lru_cache(maxsize=64)
def _code(value: float, dtype: SourceDtype) -> int:
    return int(from_float64(np.array([value]), dtype)[0])


def _raw(key: tuple[str | int, ...], count: int, dtype: SourceDtype) -> Bits:
    """`count` random words of the dtype's size."""
    item = 4 if dtype == "fp32" else 2
    drawn = words(key, 0, -(-count * item // 8)).astype("<u8", copy=False)
    return drawn.view("<u4" if item == 4 else "<u2")[:count]
