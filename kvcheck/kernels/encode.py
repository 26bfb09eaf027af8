"""fp32 → e4m3fn in integer arithmetic: the same code for every arch, whatever its compiler makes of an fp8 cast."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def encode_e4m3fn(value):
    """Round fp32 to nearest even in e4m3fn, then saturate: the code in the low byte of an int32.

    NaN gives 0x7F whatever its sign; negative zero and negative values that round to zero give 0x80 (OCP OFP8).
    """
    bits = value.to(tl.int32, bitcast=True)
    sign = (bits >> 24) & 0x80
    magnitude = bits & 0x7FFFFFFF
    # Normal codes: add half of the last kept bit, less one where that bit is even, and cut 20 bits of mantissa.
    odd = (magnitude >> 20) & 1
    normal = ((magnitude + 0x0007FFFF + odd) >> 20) - ((127 - 7) << 3)
    # Subnormal codes step by 2^-9, the spacing of fp32 numbers at 2^14: the addition itself rounds to nearest even.
    shifted = magnitude.to(tl.float32, bitcast=True) + 16384.0
    subnormal = shifted.to(tl.int32, bitcast=True) - 0x46800000
    code = tl.where(magnitude < 0x3C800000, subnormal, tl.minimum(normal, 0x7E))
    return tl.where(magnitude > 0x7F800000, 0x7F, code | sign)
