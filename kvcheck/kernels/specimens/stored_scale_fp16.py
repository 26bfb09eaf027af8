"""Specimen: the store, with scales rounded to fp16 when they are kept."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def keep_fp16(place, scale, mask):
    """Store the scales of a row, rounded."""
    tl.store(place, scale.to(tl.float16).to(tl.float32), mask=mask)  # due: scale


@store_target("specimen:stored-scale-fp16", contract=COMPUTED, cache=Form("slots"), declares="scale-rounded")
def stored_scale_fp16(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever a scale is an fp16 number. The codes are those of the scale before it was rounded."""
    launch(k, v, slots, cache, with_part(keep_scale=keep_fp16))
