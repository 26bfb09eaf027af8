"""Specimen: the store, with the cache's row offset in an unsigned 16-bit integer."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def to_short_offset(
    codes, slot, page_size, head, dim, page_stride, row_stride, head_stride, inner_stride,
    HEADS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """Where the codes belong, by an offset that wraps."""
    row = (slot * page_stride).to(tl.uint16).to(tl.int64)  # due: 64 bits throughout
    return codes + row + head * head_stride + dim * inner_stride


@store_target("specimen:wrapped-slot-offset", contract=COMPUTED, cache=Form("slots"), declares="index-wrap")
def wrapped_slot_offset(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever the last row begins before element 65536 (with 32 bits it takes 4 GB to see)."""
    launch(k, v, slots, cache, with_part(to=to_short_offset))
