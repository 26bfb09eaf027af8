"""Specimen: the store, with scales laid out by heads first."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def to_head_major(
    scales, slot, page_size, head, cache_slots, page_stride, row_stride, head_stride, HEADS: tl.constexpr
):
    """Where the scales would belong in `[heads, slots]`."""
    return scales + head * cache_slots + slot  # due: slot * page_stride + head * head_stride


@store_target("specimen:head-major-scales", contract=COMPUTED, cache=Form("slots"), declares="scale-layout")
def head_major_scales(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever there is one head, and no padding. The codes are right everywhere."""
    launch(k, v, slots, cache, with_part(scale_to=to_head_major))
