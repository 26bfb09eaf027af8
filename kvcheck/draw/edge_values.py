"""Tables of values that sit where e4m3 encoders go wrong, in units of a scale of 1.

e4m3 here is OCP OFP8's: three mantissa bits, exponent bias 7, subnormal step 2^-9, greatest value 448.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvcheck.draw.dtypes import SourceDtype, from_float64, to_float32

Values = npt.NDArray[np.float64]

#: The greatest e4m3 value. As a row's largest element it makes the scale amax / 448 exactly 1.
ANCHOR = 448.0

#: Subnormal steps in 1.
_STEPS = 512.0

#: Values that two roundings, a lost carry, or an approximate quotient send to the wrong neighbour.
_TRAPS = (17.03, 400.199585, 272.156555, 136.002075, 1.0625001, 126.24)

#: Around the greatest value: the last tie (464), its neighbours, and what is beyond.
_OVERFLOW = (447.0, 448.0, 456.0, 464.0, 465.0, 479.0, 480.0, 512.0, 1000.0)


def grid(dtype: SourceDtype) -> Values:  # noqa: ARG001 - every source dtype holds the whole grid
    """Return every finite e4m3 value, -0 included: 254 values."""
    return _both_signs(_grid())


def midpoints(dtype: SourceDtype) -> Values:
    """Return the midpoints of neighbouring e4m3 values, each with the values of `dtype` just below and above it."""
    points = _grid()
    return _both_signs(_with_neighbours((points[:-1] + points[1:]) / 2, dtype))


def subnormal_codes(dtype: SourceDtype) -> Values:
    """Return the subnormal e4m3 values and the first normal one, the ties between them, and the ties' neighbours."""
    points = np.arange(9) / _STEPS
    ties = np.arange(1, 16, 2) / (2 * _STEPS)
    return _both_signs(np.concatenate([points, _with_neighbours(ties, dtype), [0.25 / _STEPS, 7.75 / _STEPS]]))


def negative_zero(dtype: SourceDtype) -> Values:  # noqa: ARG001 - all are exact in every source dtype
    """Return -0, negatives that underflow to it (the tie 2^-10 among them), their positive kin, and ordinary values."""
    return np.array([-0.0, -(2.0**-11), -(2.0**-10), -(2.0**-20), 0.0, 2.0**-11, 1.0, -1.0, 3.5, -3.5])


def traps(dtype: SourceDtype) -> Values:
    """Return the traps of both signs, as `dtype` holds them."""
    return _both_signs(_held(np.array(_TRAPS), dtype))


def overflow(dtype: SourceDtype) -> Values:
    """Return values around and above 448, with the neighbours of the last tie: what a given scale of 1 saturates."""
    return _both_signs(np.concatenate([_held(np.array(_OVERFLOW), dtype), _with_neighbours(np.array([464.0]), dtype)]))


def _grid() -> Values:
    """Return the 127 non-negative finite e4m3 values, ascending."""
    codes = np.arange(0x7F)
    exponent, mantissa = codes >> 3, codes & 7
    steps = np.where(exponent == 0, mantissa, (8 + mantissa) << np.maximum(exponent - 1, 0))
    return steps / _STEPS


def _held(values: Values, dtype: SourceDtype) -> Values:
    """Return the values of `dtype` nearest to `values`."""
    return to_float32(from_float64(values, dtype), dtype).astype(np.float64)


def _with_neighbours(values: Values, dtype: SourceDtype) -> Values:
    """Return positive values that `dtype` holds, each with the next value of `dtype` on either side."""
    bits = from_float64(values, dtype)
    return np.concatenate([to_float32(near, dtype) for near in (bits - 1, bits, bits + 1)]).astype(np.float64)


def _both_signs(values: Values) -> Values:
    return np.concatenate([values, -values])
