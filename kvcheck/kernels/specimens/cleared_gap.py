"""Specimen: the store, with the padding behind each head cleared."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def keep_and_clear(place, code, source_place, head, dim, head_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """Store the codes of a row, and zeros up to the next head."""
    code = tl.where(dim < DIM, code, 0)
    tl.store(place, code.to(tl.uint8), mask=(head < HEADS) & (dim < tl.maximum(head_stride, DIM)))  # due: dim < DIM


@store_target("specimen:cleared-gap", contract=COMPUTED, cache=Form("slots"), declares="stray-write")
def cleared_gap(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever the heads of the cache follow each other without a gap."""
    launch(k, v, slots, cache, with_part(keep=keep_and_clear, spare_lanes=16))
