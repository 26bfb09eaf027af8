"""Specimen: the store, with the largest magnitude of the first half of each head."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, largest, launch, with_part


@triton.jit
def amax_of_half(value, place, head, dim, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """The amax of a head's first half."""
    return largest(tl.where(dim < DIM // 2, value, 0.0))  # due: largest(value)


@store_target("specimen:half-row-amax", contract=COMPUTED, cache=Form("slots"), declares="amax-population")
def half_row_amax(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever the first half has it."""
    launch(k, v, slots, cache, with_part(amax=amax_of_half))
