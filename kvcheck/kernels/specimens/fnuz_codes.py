"""Specimen: the store, with e4m3fnuz codes in an e4m3fn cache."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def encode_fnuz(scaled, seed):
    """The e4m3fnuz codes of scaled values: bias 8, up to 240, one zero, 0x80 for NaN."""  # due: e4m3fn
    bits = scaled.to(tl.int32, bitcast=True)
    sign = (bits >> 24) & 0x80
    magnitude = bits & 0x7FFFFFFF
    odd = (magnitude >> 20) & 1
    normal = ((magnitude + 0x0007FFFF + odd) >> 20) - ((127 - 8) << 3)
    # Subnormal codes step by 2^-10, the spacing of fp32 numbers at 2^13.
    shifted = magnitude.to(tl.float32, bitcast=True) + 8192.0
    subnormal = shifted.to(tl.int32, bitcast=True) - 0x46000000
    code = tl.where(magnitude < 0x3C000000, subnormal, tl.minimum(normal, 0x7F))
    signed = tl.where(code == 0, 0, code | sign)
    return tl.where(magnitude > 0x7F800000, 0x80, signed)


@store_target("specimen:fnuz-codes", contract=COMPUTED, cache=Form("slots"), declares="format-confusion")
def fnuz_codes(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right for zeros alone."""
    launch(k, v, slots, cache, with_part(encode=encode_fnuz))
