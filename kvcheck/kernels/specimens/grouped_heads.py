"""Specimen: the store, with two heads of the cache to each head of the source, as for queries."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def at_grouped_heads(
    source, token, head, dim, token_stride, head_stride, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The elements of a row, each head for two."""
    return source + token * token_stride + (head // 2) * head_stride + dim * inner_stride  # due: head


@store_target("specimen:grouped-heads", contract=COMPUTED, cache=Form("slots"), declares="head-mapping")
def grouped_heads(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever there is one head."""
    launch(k, v, slots, cache, with_part(at=at_grouped_heads))
