"""What a usual test would have said: the largest error after dequantising, against 0.08. Never a verdict."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvcheck.contract import Given
from kvcheck.formats.decode import decode
from kvcheck.judge.emitted import Emitted
from kvcheck.judge.expected import Expected
from kvcheck.judge.subject import Side, spread
from kvcheck.schema import Tolerance

#: The limit that engines' own tests use.
LIMIT = 0.08


def tolerance(side: Side, right: Expected, found: Emitted) -> Tolerance:
    """The figures of one tensor in one launch, dequantised in float64 with the emitted or given scale.

    All None where no row was stored. A figure is None where it is not finite: a NaN code, an infinite value, or an
    error in a row of zeros, which no relative figure can express.
    """
    if not right.x.size:
        return Tolerance()
    stored = right.scale if found.scale is None else found.scale
    with np.errstate(all="ignore"):  # bytes that are no scale may be any NaN
        scale = spread(side.contract, stored, right.x.shape).astype(np.float64)
        x = right.x.astype(np.float64)
        value = decode(found.codes, side.contract.format).astype(np.float64)
        rule = side.contract.scale
        multiplied = isinstance(rule, Given) and rule.direction == "multiplier"
        error = np.abs((value / scale if multiplied else value * scale) - x).max(axis=2)
        amax = np.abs(x).max(axis=2)
        relative = np.where((amax == 0) & (error == 0), 0.0, error / amax)
    return Tolerance(*_figure(error), *_figure(relative))


def _figure(errors: npt.NDArray[np.float64]) -> tuple[float, bool] | tuple[None, None]:
    worst = float(errors.max())
    return (worst, worst <= LIMIT) if np.isfinite(worst) else (None, None)
