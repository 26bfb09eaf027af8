"""Specimen: the store, with the source's row offset in a signed 16-bit integer."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def at_short_offset(
    source, token, head, dim, token_stride, head_stride, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The elements of a row, whose offset wraps."""
    row = (token * token_stride).to(tl.int16).to(tl.int64)  # due: 64 bits throughout
    return source + row + head * head_stride + dim * inner_stride


@store_target("specimen:wrapped-source", contract=COMPUTED, cache=Form("slots"), declares="index-wrap")
def wrapped_source(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever the last row begins before element 32768 (with 32 bits it takes 4 GB to see)."""
    launch(k, v, slots, cache, with_part(at=at_short_offset))
