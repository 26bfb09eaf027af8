"""Specimen: the store, with the last element of each head masked out."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def keep_all_but_last(place, code, source_place, head, dim, head_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """Store the codes of a row, but for the last of each head."""
    tl.store(place, code.to(tl.uint8), mask=(head < HEADS) & (dim < DIM - 1))  # due: dim < DIM


@store_target("specimen:last-lane", contract=COMPUTED, cache=Form("slots"), declares="tail-mask")
def last_lane(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right nowhere that a row is stored: one byte a head keeps what was there."""
    launch(k, v, slots, cache, with_part(keep=keep_all_but_last))
