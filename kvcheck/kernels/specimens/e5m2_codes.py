"""Specimen: the store, with e5m2 codes in an e4m3 cache."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def encode_e5m2(scaled, seed):
    """The e5m2 codes of scaled values: two bits of mantissa, bias 15."""  # due: e4m3fn
    bits = scaled.to(tl.int32, bitcast=True)
    sign = (bits >> 24) & 0x80
    magnitude = bits & 0x7FFFFFFF
    odd = (magnitude >> 21) & 1
    normal = ((magnitude + 0x000FFFFF + odd) >> 21) - ((127 - 15) << 2)
    # Subnormal codes step by 2^-16, the spacing of fp32 numbers at 2^7.
    shifted = magnitude.to(tl.float32, bitcast=True) + 128.0
    subnormal = shifted.to(tl.int32, bitcast=True) - 0x43000000
    code = tl.where(magnitude < 0x38800000, subnormal, tl.minimum(normal, 0x7B))
    return tl.where(magnitude > 0x7F800000, 0x7F, code | sign)


@store_target("specimen:e5m2-codes", contract=COMPUTED, cache=Form("slots"), declares="format-confusion")
def e5m2_codes(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right for zeros alone."""
    launch(k, v, slots, cache, with_part(encode=encode_e5m2))
