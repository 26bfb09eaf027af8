"""Storage bits of bf16, fp16 and fp32, to and from numpy's floats, rounding to nearest even once.

The rounding is integer code, the same for all three: no cast of the machine's is trusted, and a CPU that flushes
subnormals changes nothing. A NaN stays a NaN of its sign, quiet; infinities and -0 stay; what rounds past the
greatest finite value becomes infinity (IEEE 754).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

SourceDtype: TypeAlias = Literal["bf16", "fp16", "fp32"]
Bits: TypeAlias = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


class _Layout(NamedTuple):
    """Fields of an IEEE-like format: sign, `exponent` bits, `mantissa` bits."""

    exponent: int
    mantissa: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinity(self) -> int:
        """The code of +infinity; one less is the greatest finite value's."""
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.mantissa)


_LAYOUTS: dict[SourceDtype, _Layout] = {"bf16": _Layout(8, 7), "fp16": _Layout(5, 10), "fp32": _Layout(8, 23)}

#: Elements rounded at a time: keeps the int64 intermediates in the cache, whatever the size of the tensor.
_CHUNK = 1 << 16


def to_float32(bits: Bits, dtype: SourceDtype) -> npt.NDArray[np.float32]:
    """Return the value of every code, exactly, in the shape of `bits` (uint16, or uint32 for fp32)."""
    if dtype == "bf16":
        wide: npt.NDArray[np.uint32] = bits.astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32)
    if dtype == "fp16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float32)
    return bits.astype(np.uint32).view(np.float32)


def from_float32(values: npt.NDArray[np.float32], dtype: SourceDtype) -> Bits:
    """Return the codes nearest to `values`, ties to even. fp32 is exact but for NaN payloads."""
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one here
        wide = values.astype(np.float64)
    return from_float64(wide, dtype)


def from_float64(values: npt.NDArray[np.float64], dtype: SourceDtype) -> Bits:
    """Return the codes nearest to `values`, ties to even, in one rounding; the shape of `values`, uint16 or uint32."""
    flat = np.ascontiguousarray(values, dtype=np.float64).reshape(-1)
    codes: Bits = np.empty(flat.size, dtype=np.uint32 if dtype == "fp32" else np.uint16)
    for start in range(0, flat.size, _CHUNK):
        codes[start : start + _CHUNK] = _round(flat[start : start + _CHUNK], _LAYOUTS[dtype])
    return codes.reshape(values.shape)


@lru_cache
def greatest(dtype: SourceDtype) -> float:
    """Return the greatest finite value of the dtype."""
    layout = _LAYOUTS[dtype]
    return float(to_float32(np.array([layout.infinity - 1], dtype=np.uint32), dtype)[0])


def infinity_bits(dtype: SourceDtype) -> int:
    """Return the code of +infinity."""
    return _LAYOUTS[dtype].infinity


class Fields:
    """A dtype's bit fields as numpy scalars of its storage type."""

    def __init__(self, dtype: SourceDtype) -> None:
        layout = _LAYOUTS[dtype]
        self.of: type[np.uint16 | np.uint32] = np.uint32 if dtype == "fp32" else np.uint16
        self.exponent_step = 1 << layout.mantissa
        self.mantissa = self.exponent_step - 1
        self.exponent = layout.infinity
        self.one = self.of(1)
        self.sign = self.of(layout.sign)
        self.sign_and_mantissa = self.of(layout.sign | self.mantissa)


@lru_cache
def field_bits(dtype: SourceDtype) -> Fields:
    """Return where sign, exponent and mantissa lie in a dtype's storage bits."""
    return Fields(dtype)


def nan_bits(dtype: SourceDtype) -> int:
    """Return the code of the positive quiet NaN with no payload."""
    layout = _LAYOUTS[dtype]
    return layout.infinity | 1 << (layout.mantissa - 1)


def sign_bit(dtype: SourceDtype) -> int:
    """Return the bit that negates a value of the dtype."""
    return _LAYOUTS[dtype].sign


def _round(values: npt.NDArray[np.float64], layout: _Layout) -> npt.NDArray[np.int64]:
    """Return the codes of a flat array of float64, as int64."""
    # Sign, exponent and significand of the float64.
    pattern = values.view(np.int64)
    negative = pattern < 0
    magnitude = pattern & 0x7FFF_FFFF_FFFF_FFFF
    exponent = (magnitude >> 52) - 1023
    significand = (magnitude & 0xF_FFFF_FFFF_FFFF) | (1 << 52)

    # Drop what the target cannot hold. At 54 dropped bits the significand is below half a step: it rounds to zero.
    least = 1 - layout.bias
    dropped = np.minimum(52 - layout.mantissa + np.maximum(least - exponent, 0), 54)
    kept = significand >> dropped
    rest = significand - (kept << dropped)
    half = np.int64(1) << (dropped - 1)
    kept += (rest > half) | ((rest == half) & (kept & 1 == 1))

    # A carry out of the mantissa is the next exponent; past the last one it is infinity.
    code = ((np.maximum(exponent, least) - least) << layout.mantissa) + kept
    code = np.minimum(code, layout.infinity)
    code = np.where(magnitude > 0x7FF0_0000_0000_0000, layout.infinity | 1 << (layout.mantissa - 1), code)
    return np.where(negative, code | layout.sign, code)
