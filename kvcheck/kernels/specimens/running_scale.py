"""Specimen: the store, with a scale that never falls below the one that stands in the cache."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, per, with_part


@triton.jit
def larger_scale(amax, place, mask):
    """The scale of each head, or the last one where that is larger: as if the cache began as zeros."""
    scale = per(448.0, amax, 1e-10)
    before = tl.load(place, mask=mask, other=0.0)
    return tl.where(before > scale, before, scale)  # due: scale


@store_target("specimen:running-scale", contract=COMPUTED, cache=Form("slots"), declares="uninitialised-read")
def running_scale(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever what stood there was smaller, or no number."""
    launch(k, v, slots, cache, with_part(scale_of=larger_scale))
