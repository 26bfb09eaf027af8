"""Specimen: the store, with scales taken to lie side by side."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def to_dense_scales(
    scales, slot, page_size, head, cache_slots, page_stride, row_stride, head_stride, HEADS: tl.constexpr
):
    """Where the scales belong, in a tensor without padding."""
    return scales + slot * HEADS + head  # due: slot * page_stride + head * head_stride


@store_target("specimen:dense-scales", contract=COMPUTED, cache=Form("slots"), declares="scale-address")
def dense_scales(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever the scales have no padding. The codes are right everywhere."""
    launch(k, v, slots, cache, with_part(scale_to=to_dense_scales))
