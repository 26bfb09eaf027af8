"""Specimen: the store, with ties rounded away from zero."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def encode_ties_away(scaled, seed):
    """The codes of scaled values, ties to the larger magnitude."""
    bits = scaled.to(tl.int32, bitcast=True)
    sign = (bits >> 24) & 0x80
    magnitude = bits & 0x7FFFFFFF
    normal = ((magnitude + 0x80000) >> 20) - ((127 - 7) << 3)  # due: one less where the last kept bit is even
    small = tl.minimum(magnitude, 0x3C800000).to(tl.float32, bitcast=True)
    subnormal = (small * 512.0 + 0.5).to(tl.int32)  # due: likewise
    code = tl.where(magnitude < 0x3C800000, subnormal, tl.minimum(normal, 0x7E))
    return tl.where(magnitude > 0x7F800000, 0x7F, code | sign)


@store_target("specimen:ties-away", contract=COMPUTED, cache=Form("slots"), declares="rounding-mode")
def ties_away(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever no scaled value is a tie."""
    launch(k, v, slots, cache, with_part(encode=encode_ties_away))
