"""The inputs that tell encoders apart: a few thousand by which each is named, and a sample of every binade."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.encode.steps import all_thresholds, points
from kvcheck.formats.spec import Format

Patterns: TypeAlias = npt.NDArray[np.uint32]

#: No format needs more.
MOST = 4096
#: The low 13 bits of a sample's patterns: fp32 has 13 bits more than fp16. A tie and its two sides, and the ends.
_LOW = (0x0000, 0x0001, 0x0FFF, 0x1000, 0x1001, 0x1FFF)


@lru_cache(maxsize=8)
def probes(number_format: Format) -> Patterns:
    """At most 4096 fp32 patterns that tell every encoder named here from every other, ascending, of both signs.

    Each value, each middle between two and its neighbours: one fp32 step away, and one that rounds to the middle in
    fp16 or in bf16, to either side. Then large numbers, infinity, NaN and tiny numbers.
    """
    values, _ = all_thresholds(number_format, "rtz")
    middles, _ = all_thresholds(number_format, "rne")
    exact = values.astype(np.float32).view(np.uint32).astype(np.int64)
    middle = middles.astype(np.float32).view(np.uint32).astype(np.int64)
    near = [exact, exact - 1, exact + 1, middle, middle - 1, middle + 1]
    # Half an ulp of fp16 is 2^12 fp32 steps, and of bf16 2^15: less than that, and, truncating, less than twice that.
    near += [middle - 0x800, middle + 0x800, middle + 0x1800, middle - 0x4000, middle + 0x4000]
    special = np.array(
        [0, 1, 2, 0x007FFFFF, 0x00800000, 0x2B800000, 0x477FE000, 0x477FF000, 0x477FFFFF, 0x47800000, 0x4F000000,
         0x7E000000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FA00000, 0x7FC00000, 0x7FFFFFFF],
        dtype=np.int64,
    )  # fmt: skip
    every = np.unique(np.concatenate([*near, special]))
    every = every[(every >= 0) & (every <= 0x7FFFFFFF)]
    both = np.concatenate([every, every + (1 << 31)]).astype(np.uint32)
    assert both.size <= MOST, "probes stay few"
    both.setflags(write=False)
    return both


@lru_cache(maxsize=4)
def sample(number_format: Format) -> Patterns:
    """Some three million of the 2^32 fp32 patterns, ascending: far from all.

    The probes; where any named rounding passes to the next code, and beside it; and of every binade all 2^10 upper
    mantissas with six lower parts each.
    """
    grid = points(number_format)
    around = np.concatenate([grid - 1, grid, grid + 1])
    around = around[(around >= 0) & (around < 1 << 32)]
    upper = np.arange(1 << 19, dtype=np.int64) << 13
    regular = np.concatenate([upper | low for low in _LOW])
    every = np.unique(np.concatenate([probes(number_format).astype(np.int64), around, regular]))
    return every.astype(np.uint32)
