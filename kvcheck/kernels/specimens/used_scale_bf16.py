"""Specimen: the store, with scales rounded to bf16 when they are applied."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def divide_by_bf16(value, scale):
    """The values in units of their scales as bf16 numbers."""
    return tl.div_rn(value, scale.to(tl.bfloat16).to(tl.float32))  # due: scale


@store_target("specimen:used-scale-bf16", contract=COMPUTED, cache=Form("slots"), declares="scale-rounded")
def used_scale_bf16(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever a scale is a bf16 number. The scales are kept as they were before they were rounded."""
    launch(k, v, slots, cache, with_part(apply=divide_by_bf16))
