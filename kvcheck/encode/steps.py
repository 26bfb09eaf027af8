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
    """How many values above zero the magnitudes of fp32 patterns round to, one beyond the largest being the most.

    NaN is beyond too; callers look at it first.
    """
    negative = patterns >> np.uint32(31) == 1
    if rounding in ("floor", "ceil"):
        inward, outward = _passed(patterns, number_format, "rtz"), _outward(patterns, number_format)
        return np.where(negative == (rounding == "floor"), outward, inward)
    if rounding == "via_bf16":
        patterns = bf16_patterns(patterns)
    elif rounding in ("via_fp16_rtz", "via_fp16_rne"):
        patterns = fp16_patterns(patterns, toward_zero=rounding == "via_fp16_rtz")
    return _passed(patterns, number_format, rounding if rounding in ("rtz", "half_away") else "rne")


def _magnitudes(patterns: Patterns) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float32] = (patterns & MAGNITUDE).view(np.float32)
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64)


def _passed(patterns: Patterns, number_format: Format, rounding: Literal["rne", "half_away", "rtz"]) -> Steps:
    """How many thresholds magnitudes pass."""
    points, taken = thresholds(number_format, rounding)
    limits = np.where(taken, np.nextafter(points, 0), points)
    return np.searchsorted(limits, _magnitudes(patterns), side="left").astype(np.int64)


def _outward(patterns: Patterns, number_format: Format) -> Steps:
    """Rounded away from zero."""
    values, _ = thresholds(number_format, "rtz")
    passed = np.searchsorted(values, _magnitudes(patterns), side="left") + 1
    least = np.where(patterns & MAGNITUDE == 0, 0, passed)
    return np.minimum(least, number_format.largest + 1).astype(np.int64)


@lru_cache(maxsize=8)
def points(number_format: Format) -> npt.NDArray[np.int64]:
    """Every pattern, of 0 to 2^32, at which a cell begins, ascending: all roundings' thresholds, and the edges.

    Edges are zero, the least normal value, the largest one, infinity and NaN, of both signs. Other formats' thresholds
    are among them too, so that codes of a format that was mistaken for this one can be told.
    """
    found = [np.array([0, 1, int(INFINITY), int(INFINITY) + 1], dtype=np.int64), _edges(number_format)]
    found += [_starts(number_format, rounding) for rounding in ROUNDINGS if rounding not in ("floor", "ceil")]
    found += [_starts(other, "rne") for other in FORMATS.values() if other.name != number_format.name]
    # Away from zero a value's own pattern is the last of its step.
    found.append(_starts(number_format, "rtz") + 1)
    magnitudes = np.unique(np.concatenate(found))
    magnitudes = magnitudes[magnitudes <= int(INFINITY) + 1]
    both = np.concatenate([magnitudes, magnitudes + (1 << 31)])
    both.setflags(write=False)
    return both


def least_normal(number_format: Format) -> np.uint32:
    """The pattern of the least value that is no subnormal; zero for integers, which have none."""
    return np.uint32(0 if number_format.integer else (128 - number_format.bias) << 23)


def largest_value(number_format: Format) -> np.uint32:
    """The pattern of the largest finite value."""
    values, _ = thresholds(number_format, "rtz")
    return np.uint32(values.astype(np.float32).view(np.uint32)[number_format.largest - 1])


def _edges(number_format: Format) -> npt.NDArray[np.int64]:
    first = np.array([least_normal(number_format), largest_value(number_format)], dtype=np.int64)
    return np.concatenate([first, first + 1])


def _starts(number_format: Format, rounding: Rounding) -> npt.NDArray[np.int64]:
    """The least magnitude pattern of every step above zero, by bisection: each of these roundings is monotone."""
    wanted = np.arange(1, number_format.largest + 2, dtype=np.int64)
    low = np.zeros_like(wanted)
    high = np.full_like(wanted, int(INFINITY))
    while np.any(high - low > 1):
        middle = (low + high) // 2
        reached = steps(middle.astype(np.uint32), number_format, rounding) >= wanted
        high = np.where(reached, middle, high)
        low = np.where(reached, low, middle)
    return high
