"""Roundings as steps above zero, and every fp32 pattern at which any of them passes to the next.

Between two such patterns that follow each other, no rounding here changes its code: what holds for one pattern holds
for all up to the next point. So a few thousand cells stand for all 2^32 inputs, exactly.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.formats.cast import bf16_patterns, fp16_patterns
from kvcheck.formats.exact import thresholds
from kvcheck.formats.spec import FORMATS, Format

Patterns: TypeAlias = npt.NDArray[np.uint32]
Steps: TypeAlias = npt.NDArray[np.int64]
Rounding: TypeAlias = Literal[
    "rne", "half_away", "rtz", "floor", "ceil", "via_fp16_rtz", "via_fp16_rne", "via_bf16"
]  # fmt: skip

#: Simplest first. `floor` is toward minus infinity, `ceil` toward plus infinity.
ROUNDINGS: tuple[Rounding, ...] = (
    "rne", "half_away", "rtz", "floor", "ceil", "via_fp16_rtz", "via_fp16_rne", "via_bf16",
)  # fmt: skip

MAGNITUDE = np.uint32(0x7FFFFFFF)
INFINITY = np.uint32(0x7F800000)


def steps(patterns: Patterns, number_format: Format, rounding: Rounding) -> Steps:
    """How many values above zero the magnitudes of fp32 patterns round to, `top(number_format)` being the most.

    Values are counted as if exponents had no end. NaN is at the top too; callers look at it first.
    """
    first = narrowed(patterns, rounding)
    if rounding in ("floor", "ceil"):
        negative = patterns >> np.uint32(31) == 1
        inward, outward = _passed(first, number_format, "rtz"), _outward(first, number_format)
        return np.where(negative == (rounding == "floor"), outward, inward)
    return _passed(first, number_format, rounding if rounding in ("rtz", "half_away") else "rne")


def narrowed(patterns: Patterns, rounding: Rounding) -> Patterns:
    """What a rounding of two steps makes of fp32 patterns in the first; else the patterns themselves."""
    if rounding == "via_bf16":
        return bf16_patterns(patterns)
    if rounding in ("via_fp16_rtz", "via_fp16_rne"):
        return fp16_patterns(patterns, toward_zero=rounding == "via_fp16_rtz")
    return patterns


def top(number_format: Format) -> int:
    """The least step beyond the largest value that is a power of two: where a carry may be lost last."""
    binade = 1 << number_format.mantissa_bits
    return -(-(number_format.largest + 1) // binade) * binade


def _magnitudes(patterns: Patterns) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float32] = (patterns & MAGNITUDE).view(np.float32)
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64)


def _passed(patterns: Patterns, number_format: Format, rounding: Literal["rne", "half_away", "rtz"]) -> Steps:
    """How many thresholds magnitudes pass."""
    return np.searchsorted(_limits(number_format, rounding), _magnitudes(patterns), side="left").astype(np.int64)


def all_thresholds(
    number_format: Format, rounding: Literal["rne", "half_away", "rtz"]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Where magnitudes pass from one value to the next, up to `top`, and whether that point itself passes."""
    points, taken = thresholds(number_format, rounding)
    # Behind the last threshold of the format the distance stays what it is, up to the power of two.
    more = np.arange(1, top(number_format) - len(points) + 1)
    even = (len(points) + more) % 2 == 0 if rounding == "rne" else np.ones(len(more), dtype=np.bool_)
    return np.append(points, points[-1] + more * (points[-1] - points[-2])), np.append(taken, even)


@lru_cache(maxsize=32)
def _limits(number_format: Format, rounding: Literal["rne", "half_away", "rtz"]) -> npt.NDArray[np.float64]:
    """The float64 numbers above which each step is taken."""
    points, taken = all_thresholds(number_format, rounding)
    return np.where(taken, np.nextafter(points, 0), points)


def _outward(patterns: Patterns, number_format: Format) -> Steps:
    """Rounded away from zero."""
    values = np.nextafter(_limits(number_format, "rtz"), np.inf)
    passed = np.searchsorted(values, _magnitudes(patterns), side="left") + 1
    least = np.where(patterns & MAGNITUDE == 0, 0, passed)
    return np.minimum(least, top(number_format)).astype(np.int64)


@lru_cache(maxsize=8)
def points(number_format: Format) -> npt.NDArray[np.int64]:
    """Every pattern, of 0 to 2^32, at which a cell begins, ascending: all roundings' thresholds, and the edges.

    Edges are zero, the least normal value, the largest one, infinity and NaN, of both signs. Other formats' thresholds
    are among them too, so that codes of a format that was mistaken for this one can be told.
    """
    found = [np.array([0, 1, int(INFINITY), int(INFINITY) + 1], dtype=np.int64), _edges(number_format)]
    found += [_starts(number_format, rounding) for rounding in ROUNDINGS if rounding not in ("floor", "ceil")]
    # Where the second of two steps is exact, and so carries nothing.
    found += [_starts(number_format, "rtz", first) for first in ("via_fp16_rtz", "via_fp16_rne", "via_bf16")]
    found += [_starts(other, "rne") for other in FORMATS.values() if other.name != number_format.name]
    # Away from zero a value's own pattern is the last of its step.
    found.append(_starts(number_format, "rtz") + 1)
    magnitudes = np.unique(np.concatenate(found))
    magnitudes = magnitudes[magnitudes <= int(INFINITY) + 1]
    both = np.concatenate([magnitudes, magnitudes + (1 << 31)])
    both.setflags(write=False)
    return both


def least_normal(number_format: Format) -> int:
    """The pattern of the least value that is no subnormal; zero for integers, which have none."""
    return 0 if number_format.integer else (128 - number_format.bias) << 23


def largest_value(number_format: Format) -> int:
    """The pattern of the largest finite value."""
    values, _ = thresholds(number_format, "rtz")
    patterns: Patterns = values.astype(np.float32).view(np.uint32)
    return int(patterns[number_format.largest - 1])


def _edges(number_format: Format) -> npt.NDArray[np.int64]:
    first = np.array([least_normal(number_format), largest_value(number_format)], dtype=np.int64)
    return np.concatenate([first, first + 1])


def _starts(number_format: Format, rounding: Rounding, first: Rounding = "rne") -> npt.NDArray[np.int64]:
    """The least magnitude pattern of every step above zero, by bisection: each of these roundings is monotone.

    `first` is a rounding whose first step comes before.
    """
    wanted = np.arange(1, top(number_format) + 1, dtype=np.int64)
    low = np.zeros_like(wanted)
    high = np.full_like(wanted, int(INFINITY))
    while np.any(high - low > 1):
        middle = (low + high) // 2
        reached = steps(narrowed(middle.astype(np.uint32), first), number_format, rounding) >= wanted
        high = np.where(reached, middle, high)
        low = np.where(reached, low, middle)
    return high
