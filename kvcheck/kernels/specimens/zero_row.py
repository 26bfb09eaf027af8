"""Specimen: the store, with nothing that keeps a scale from zero."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def scale_without_least(amax, place, mask):
    """The scale of each head: zero for a row of zeros, whose codes are then 0 / 0."""
    return tl.div_rn(amax, tl.full(amax.shape, 448.0, tl.float32))  # due: tl.maximum(amax, 1e-10)


@store_target("specimen:zero-row", contract=COMPUTED, cache=Form("slots"), declares="zero-row")
def zero_row(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever no row is all zeros, or so small that its amax is less than 1e-10."""
    launch(k, v, slots, cache, with_part(scale_of=scale_without_least))
