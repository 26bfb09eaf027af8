"""Inputs where rounding is decided: every bf16 and fp16 value, and the fp32 neighbours of every tie."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from kvcheck.formats.decode import decode
from kvcheck.formats.spec import FORMATS


def _around(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
    """The fp32 bit patterns from 2 below to 2 above each value, of both signs."""
    with np.errstate(over="ignore"):
        centre = values.astype(np.float32).view(np.uint32)
    near = (centre[:, None].astype(np.int64) + np.arange(-2, 3)).clip(0, 0x7FFFFFFF).astype(np.uint32).reshape(-1)
    return np.concatenate([near, near | np.uint32(0x80000000)])


def _decision_points() -> npt.NDArray[np.float64]:
    """Zero, every value of every format, every middle between two, what follows the largest, the same for fp16."""
    grids = [decode(np.arange(256, dtype=np.uint8), each).astype(np.float64) for each in FORMATS.values()]
    grids.append(np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64))
    points = []
    for grid in grids:
        values = np.unique(grid[np.isfinite(grid) & (grid >= 0)])
        step = values[-1] - values[-2]
        values = np.concatenate([values, values[-1] + [step, 2 * step]])
        points += [values, (values[1:] + values[:-1]) / 2]
    # bf16's ties, at the values where an 8-bit format has its own: two-step rounding differs there.
    fine = np.concatenate([points[0] * (1 + side * 2.0**-9) for side in (-1, 1)])
    named = np.array([448.0, 464.0, 480.0, 2.0**-10, 3 * 2.0**-10, 65504.0, 65520.0, 3.4e38, np.inf, np.nan])
    return np.concatenate([*points, fine, named])


@pytest.fixture(scope="session")
def patterns() -> npt.NDArray[np.uint32]:
    """Some 900 000 fp32 bit patterns: all of bf16 and fp16, the neighbours of ties, NaNs of many payloads."""
    every = np.arange(1 << 16, dtype=np.uint32)
    half = every.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    nans = np.array([0x7F800001, 0x7F80FFFF, 0x7FC00000, 0x7FFFFFFF], dtype=np.uint32)
    return np.concatenate([every << np.uint32(16), half, _around(_decision_points()), nans, nans | np.uint32(1 << 31)])
