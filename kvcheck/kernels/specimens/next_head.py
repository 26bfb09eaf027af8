"""Specimen: the store, with every head taken for the one before it, and the first for the last."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def at_next_head(
    source, token, head, dim, token_stride, head_stride, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The elements of a row, its heads rotated by one."""
    return source + token * token_stride + ((head + 1) % HEADS) * head_stride + dim * inner_stride  # due: head


@store_target("specimen:next-head", contract=COMPUTED, cache=Form("slots"), declares="head-mapping")
def next_head(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever there is one head."""
    launch(k, v, slots, cache, with_part(at=at_next_head))
