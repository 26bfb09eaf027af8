"""Specimen: the store, with heads taken to follow each other without a gap."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def at_dense_heads(
    source, token, head, dim, token_stride, head_stride, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The elements of a row, its heads `DIM` apart."""
    return source + token * token_stride + head * DIM + dim * inner_stride  # due: head * head_stride


@store_target("specimen:dense-heads", contract=COMPUTED, cache=Form("slots"), declares="dense-heads")
def dense_heads(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever a head begins where the one before it ends, or there is one head."""
    launch(k, v, slots, cache, with_part(at=at_dense_heads))
