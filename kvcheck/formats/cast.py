"""fp32 rounded to narrower types, with the result still held in fp32. Integer arithmetic on bit patterns.

NaN stays NaN, infinities stay, -0 stays -0. Sources: IEEE 754-2019 for fp16; bf16 is fp32's upper half, to nearest
even; OCP Microscaling (MX) 1.0 for E8M0.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Patterns: TypeAlias = npt.NDArray[np.uint32]
Dtype: TypeAlias = Literal["fp32", "fp16", "bf16", "ue8m0"]

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_FP16_LARGEST = np.uint32(0x477FE000)  # 65504
_FP16_OVERFLOW = np.uint32(0x477FF000)  # 65520, the tie between 65504 and 65536
_FP16_NORMAL = np.uint32(0x38800000)  # 2^-14
_FP16_STEP = np.float32(2.0**-24)
_UE8M0_LEAST = np.uint32(0x00400000)  # 2^-127
_UE8M0_LARGEST = np.uint32(0x7F000000)  # 2^127


def bf16_patterns(patterns: Patterns) -> Patterns:
    """fp32 bit patterns rounded to bf16, to nearest even. Values that round beyond the largest become infinite."""
    odd = (patterns >> np.uint32(16)) & np.uint32(1)
    rounded: Patterns = (patterns + (np.uint32(0x7FFF) + odd)) & np.uint32(0xFFFF0000)
    nan: npt.NDArray[np.bool_] = (patterns & _MAGNITUDE) > _INFINITY
    # A NaN whose payload lies in the lower half alone would otherwise round to infinity.
    quiet: Patterns = patterns | np.uint32(0x00400000)
    return np.where(nan, quiet, rounded)


def fp16_patterns(patterns: Patterns, *, toward_zero: bool = False) -> Patterns:
    """fp32 bit patterns rounded to fp16: to nearest even, or toward zero.

    To nearest, magnitudes of 65520 and more become infinite; toward zero, finite ones stop at 65504.
    """
    sign = patterns & ~_MAGNITUDE
    magnitude = patterns & _MAGNITUDE
    # Normal numbers drop 13 bits of the mantissa; each power of two below 2^-14 drops one more.
    exponent = (magnitude >> np.uint32(23)).astype(np.int64)
    shift = np.clip(13 + (113 - exponent), 13, 25).astype(np.uint32)
    subnormal = magnitude < _FP16_NORMAL
    significand = np.where(subnormal, magnitude & np.uint32(0x7FFFFF) | np.uint32(0x800000), magnitude)
    significand = np.where(exponent == 0, np.uint32(0), significand)
    if not toward_zero:
        odd = (significand >> shift) & np.uint32(1)
        significand = significand + ((np.uint32(1) << (shift - np.uint32(1))) - np.uint32(1) + odd)
    kept = significand >> shift
    rounded = np.where(subnormal, (kept.astype(np.float32) * _FP16_STEP).view(np.uint32), kept << shift)
    if toward_zero:
        rounded = np.where((magnitude < _INFINITY) & (rounded > _FP16_LARGEST), _FP16_LARGEST, rounded)
    else:
        rounded = np.where(magnitude >= _FP16_OVERFLOW, _INFINITY, rounded)
    rounded = np.where(magnitude >= _INFINITY, magnitude, rounded)
    signed: Patterns = sign | rounded
    return signed


def power_of_two_above(values: Floats) -> Floats:
    """The least power of two that is no smaller, for values of zero and more: 2^ceil(log2 x), in exact arithmetic.

    0 stays 0, infinity and NaN stay; above 2^127 it is infinity.
    """
    mantissa, exponent = np.frexp(values.astype(np.float64))
    # frexp's mantissa is in [½, 1): exactly ½ is a power of two already.
    power = np.ldexp(1.0, exponent - (mantissa == 0.5))
    with np.errstate(over="ignore"):
        rounded = power.astype(np.float32)
    return np.where((values == 0) | ~np.isfinite(values), values, rounded)


def ue8m0(values: Floats) -> Floats:
    """Scales of zero and more rounded up to a power of two of E8M0: 2^-127 … 2^127.

    Smaller ones, zero included, become 2^-127; larger ones, infinity included, 2^127; NaN stays. Rounding up keeps
    amax / scale within the format: it is what PTX `cvt.rp.satfinite.ue8m0x2` and kernels with 2^ceil(log2) do.
    """
    least, largest = _UE8M0_LEAST.view(np.float32), _UE8M0_LARGEST.view(np.float32)
    return np.clip(power_of_two_above(values), least, largest)


def round_to(values: Floats, dtype: Dtype) -> Floats:
    """fp32 values rounded to `dtype`, to nearest even (`ue8m0`: up), held in fp32. Shape is kept."""
    if dtype == "fp32":
        return values
    if dtype == "ue8m0":
        return ue8m0(values)
    patterns = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).reshape(np.shape(values))
    narrow = bf16_patterns(patterns) if dtype == "bf16" else fp16_patterns(patterns)
    return narrow.view(np.float32)
