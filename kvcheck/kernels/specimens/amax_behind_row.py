"""Specimen: the store, with one element behind the row taken into its last head's largest magnitude."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, largest, launch, with_part


@triton.jit
def amax_and_next(value, place, head, dim, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """The amax of each head; of the last one, one lane too many."""
    wide = (dim < DIM) | ((dim == DIM) & (head == HEADS - 1))  # due: dim < DIM
    return largest(tl.load(place, mask=(head < HEADS) & wide, other=0.0).to(tl.float32))


@store_target("specimen:amax-behind-row", contract=COMPUTED, cache=Form("slots"), declares="foreign-read")
def amax_behind_row(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever what lies there is no larger than the head's own elements."""
    launch(k, v, slots, cache, with_part(amax=amax_and_next, spare_lanes=1))
