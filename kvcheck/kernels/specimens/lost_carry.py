"""Specimen: the store, with a carry out of the mantissa lost."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.encode import encode_e4m3fn
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def encode_without_carry(scaled, seed):
    """The codes of scaled values, whose rounding never reaches the exponent."""
    bits = scaled.to(tl.int32, bitcast=True)
    sign = (bits >> 24) & 0x80
    magnitude = bits & 0x7FFFFFFF
    cut = (magnitude >> 20) - ((127 - 7) << 3)
    right = encode_e4m3fn(scaled) & 0x7F
    code = (cut & 0x78) | (right & 0x07)  # due: right
    keeps = (magnitude < 0x3C800000) | (cut >= 0x7E)
    return tl.where(keeps, encode_e4m3fn(scaled), code | sign)


@store_target("specimen:lost-carry", contract=COMPUTED, cache=Form("slots"), declares="lost-carry")
def lost_carry(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever no scaled value rounds up to a power of two. There it is halved."""
    launch(k, v, slots, cache, with_part(encode=encode_without_carry))
