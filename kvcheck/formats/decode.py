"""Codes to fp32 values. Every value of every format here is exact in fp32."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from kvcheck.errors import FormatError
from kvcheck.formats.spec import Format, find_format


def decode(codes: npt.NDArray[np.uint8], number_format: str | Format = "e4m3fn") -> npt.NDArray[np.float32]:
    """The values of `codes`, in the same shape: NaN for NaN codes, ±infinity where the format has it, -0 for -0.

    int8's 0x80, which no encoder here emits, decodes to -128. Raises FormatError for other dtypes and formats.
    """
    if codes.dtype != np.uint8:
        raise FormatError(f"cannot decode {codes.dtype}; expected uint8 codes")
    return _table(find_format(number_format))[codes]


@lru_cache(maxsize=16)
def _table(number_format: Format) -> npt.NDArray[np.float32]:
    """The values of all 256 codes."""
    codes = np.arange(256, dtype=np.uint8)
    if number_format.integer:
        return codes.view(np.int8).astype(np.float32)
    bits = number_format.mantissa_bits
    magnitude = (codes & 0x7F).astype(np.int32)
    field, mantissa = magnitude >> bits, magnitude & ((1 << bits) - 1)
    significand = np.where(field > 0, mantissa + (1 << bits), mantissa)
    values = np.ldexp(significand.astype(np.float32), np.maximum(field, 1) - number_format.bias - bits)
    values = np.asarray(np.where(codes >= 0x80, -values, values), dtype=np.float32)
    values[_nan_codes(number_format)] = np.nan
    if number_format.infinity is not None:
        values[[number_format.infinity, number_format.infinity | 0x80]] = np.inf, -np.inf
    values.setflags(write=False)
    return values


def _nan_codes(number_format: Format) -> list[int]:
    """The NaN codes: the only one, or all beyond the largest finite value and infinity, of both signs."""
    if number_format.negative_nan is None:
        return [] if number_format.nan is None else [number_format.nan]
    first = number_format.largest if number_format.infinity is None else number_format.infinity
    return [code | sign for code in range(first + 1, 0x80) for sign in (0, 0x80)]
