"""Specimen: the store, with the elements behind the last whole vector of eight left out."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def keep_whole_vectors(place, code, source_place, head, dim, head_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """Store the codes of a row, as many as whole vectors have."""
    tl.store(place, code.to(tl.uint8), mask=(head < HEADS) & (dim < DIM // 8 * 8))  # due: dim < DIM


@store_target("specimen:whole-vectors", contract=COMPUTED, cache=Form("slots"), declares="tail-mask")
def whole_vectors(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever head_dim is a multiple of eight."""
    launch(k, v, slots, cache, with_part(keep=keep_whole_vectors))
