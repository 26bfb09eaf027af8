"""Specimen: the store, with a negative slot counted from the cache's end."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part
from kvcheck.kernels.store import is_named_later


@triton.jit
def pick_from_the_end(slots, slots_stride, slots_count, token, cache_slots, STEP: tl.constexpr):
    """The slot of a token; the last for -1."""
    slot = tl.load(slots + token * slots_stride).to(tl.int64)
    later = is_named_later(slots, slots_stride, slots_count, token, slot, STEP)
    slot = tl.where(slot < 0, slot + cache_slots, slot)  # due: left negative, which stores nothing
    return tl.where(later, -1, slot)


@store_target("specimen:negative-slot", contract=COMPUTED, cache=Form("slots"), declares="negative-slot")
def negative_slot(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever no slot is negative."""
    launch(k, v, slots, cache, with_part(pick=pick_from_the_end))
