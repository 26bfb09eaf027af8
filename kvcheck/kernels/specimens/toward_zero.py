"""Specimen: the store, with codes cut off instead of rounded."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def encode_toward_zero(scaled, seed):
    """The codes of scaled values, rounded toward zero."""
    bits = scaled.to(tl.int32, bitcast=True)
    sign = (bits >> 24) & 0x80
    magnitude = bits & 0x7FFFFFFF
    normal = (magnitude >> 20) - ((127 - 7) << 3)  # due: half of the last kept bit added before
    subnormal = (tl.minimum(magnitude, 0x3C800000).to(tl.float32, bitcast=True) * 512.0).to(tl.int32)  # due: likewise
    code = tl.where(magnitude < 0x3C800000, subnormal, tl.minimum(normal, 0x7E))
    return tl.where(magnitude > 0x7F800000, 0x7F, code | sign)


@store_target("specimen:toward-zero", contract=COMPUTED, cache=Form("slots"), declares="rounding-mode")
def toward_zero(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever every scaled value is an e4m3 number."""
    launch(k, v, slots, cache, with_part(encode=encode_toward_zero))
