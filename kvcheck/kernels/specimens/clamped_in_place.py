"""Specimen: the store, with K and V clamped to the format's range where they lie."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def load_and_clamp(place, mask):
    """The row, of which what is above 448 does not stay as it was."""
    value = tl.load(place, mask=mask, other=0.0).to(tl.float32)
    clamped = tl.where(value > 448.0, 448.0, tl.where(value < -448.0, -448.0, value))
    tl.store(place, clamped.to(place.dtype.element_ty), mask=mask)  # due: nothing
    return value


@store_target("specimen:clamped-in-place", contract=COMPUTED, cache=Form("slots"), declares="input-mutated")
def clamped_in_place(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever no value is above 448."""
    launch(k, v, slots, cache, with_part(load=load_and_clamp))
