"""What functions of CUDA's libdevice give, as far as that is exact: numpy arrays in, numpy arrays out, elementwise.

Triton links libdevice such that fp32 arithmetic flushes subnormals to zeros of their sign, operands and results alike
(`div.rn.ftz.f32`), unless a launch says `enable_reflect_ftz=False`. Approximations (`fast_dividef`, `exp2`, `sqrt`)
differ between GPUs and have no model here. On an H200 (triton 3.6) every function here gave the model's bits for 2^24
operands, NaNs taken as equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Function: TypeAlias = Callable[..., Array]

_TINY = np.finfo(np.float32).tiny
#: From here on 24 bits with any exponent round to the least normal number: an H200 counts these as normal.
_TINIEST = 2.0**-126 * (1 - 2.0**-25)


def model(symbol: str) -> Function | None:
    """The function of libdevice's `symbol` (`__nv_rintf`), or None where there is no model.

    It takes arrays of the dtypes that the symbol takes, fp32, fp64 or int32, and gives one of the dtype that the
    symbol gives, in the broadcast shape. Every NaN is some NaN.
    """
    return _MODELS.get(symbol)


def flushed(values: Array) -> Array:
    """fp32 values, with zeros of the same sign for subnormals."""
    return np.asarray(np.where(np.abs(values) < _TINY, np.copysign(np.float32(0), values), values))


def away(values: Array) -> Array:
    """Floats to the nearest whole number, ties away from zero; NaN, infinities and the sign of zeros stay."""
    whole = np.trunc(values)
    beyond = np.abs(values - whole) >= 0.5
    rounded: Array = np.copysign(np.where(beyond, np.abs(whole) + 1, np.abs(whole)), values)
    return rounded.astype(values.dtype)


def _flushing(function: Function) -> Function:
    """An operation of fp32 whose operands and result are flushed."""

    def run(*operands: Array) -> Array:
        return flushed(function(*(flushed(each) for each in operands)))

    return run


def _product(function: Function) -> Function:
    """A product or quotient of fp32, flushed where it is subnormal before it is rounded to fp32's least exponent.

    The exact one of fp32 operands is the fp64 one, or rounds to fp32 as that does.
    """

    def run(*operands: Array) -> Array:
        wide = np.asarray(function(*(flushed(each).astype(np.float64) for each in operands)))
        rounded = wide.astype(np.float32)
        return np.asarray(np.where(np.abs(wide) < _TINIEST, np.copysign(np.float32(0), rounded), rounded))

    return run


def _whole(rounding: Function, to: type[np.signedinteger[Any]], nan: int) -> Function:
    """fp32 to an integer: rounded, then held within the type's bounds."""
    bounds = np.iinfo(to)

    def run(values: Array) -> Array:
        rounded = rounding(flushed(values)).astype(np.float64)
        # The upper bound of int64 is no float: what reaches the power of two above it is replaced.
        high = rounded >= -float(bounds.min)
        inside = np.where(high | np.isnan(rounded), 0, np.maximum(rounded, float(bounds.min))).astype(to)
        return np.where(np.isnan(values), to(nan), np.where(high, to(bounds.max), inside)).astype(to)

    return run


def _saturate(values: Array) -> Array:
    """fp32 held within 0 and 1; NaN and zeros of either sign are +0."""
    return np.asarray(np.where(values > 0, np.minimum(flushed(values), np.float32(1)), np.float32(0)), dtype=np.float32)


def _says(predicate: Function) -> Function:
    return lambda values: np.asarray(predicate(values).astype(np.int32))


def _ones(function: Function) -> Function:
    return lambda values: function(1.0, values)


_INT64_NAN = np.iinfo(np.int64).min

_MODELS: dict[str, Function] = {
    # To whole numbers: one name for fp32, one for fp64.
    **dict.fromkeys(("__nv_rintf", "__nv_rint", "__nv_nearbyintf", "__nv_nearbyint"), np.rint),
    "__nv_roundf": _flushing(away), "__nv_round": away,
    **dict.fromkeys(("__nv_truncf", "__nv_trunc"), np.trunc),
    "__nv_floorf": _flushing(np.floor), "__nv_floor": np.floor,
    "__nv_ceilf": _flushing(np.ceil), "__nv_ceil": np.ceil,
    # fp32 arithmetic to nearest even.
    "__nv_fdiv_rn": _product(np.divide), "__nv_fmul_rn": _product(np.multiply),
    "__nv_fadd_rn": _flushing(np.add), "__nv_fsub_rn": _flushing(np.subtract),
    "__nv_frcp_rn": _product(_ones(np.divide)), "__nv_fsqrt_rn": _flushing(np.sqrt),
    # Signs and bounds.
    "__nv_fabsf": _flushing(np.abs), "__nv_copysignf": np.copysign, "__nv_saturatef": _saturate,
    # To integers: NaN is 0 as an int32, the least number as an int64.
    "__nv_float2int_rn": _whole(np.rint, np.int32, 0), "__nv_float2int_rz": _whole(np.trunc, np.int32, 0),
    "__nv_float2int_rd": _whole(np.floor, np.int32, 0), "__nv_float2int_ru": _whole(np.ceil, np.int32, 0),
    "__nv_float2ll_rn": _whole(np.rint, np.int64, _INT64_NAN), "__nv_llrintf": _whole(np.rint, np.int64, _INT64_NAN),
    "__nv_int2float_rn": lambda values: values.astype(np.float32),
    # Bits, and what they say.
    "__nv_float_as_int": lambda values: values.view(np.int32),
    "__nv_int_as_float": lambda values: values.view(np.float32),
    "__nv_isnanf": _says(np.isnan), "__nv_isinff": _says(np.isinf), "__nv_finitef": _says(np.isfinite),
    "__nv_signbitf": _says(np.signbit),
}  # fmt: skip

#: The symbols that have a model.
SYMBOLS = tuple(_MODELS)
