"""Specimen: the store, with the codes of the last and the scales of the first of the tokens that share a slot."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, keep_no_scale, launch, with_part


@triton.jit
def pick_first(slots, slots_stride, slots_count, token, cache_slots, STEP: tl.constexpr):
    """The slot of a token, or -1: of tokens that share one, only the first is stored."""
    slot = tl.load(slots + token * slots_stride).to(tl.int64)
    named = 0
    for start in range(0, token, STEP):
        earlier = start + tl.arange(0, STEP).to(tl.int64)
        found = tl.load(slots + earlier * slots_stride, mask=earlier < token, other=-1).to(tl.int64)
        named = tl.maximum(named, tl.max((found == slot).to(tl.int32), axis=0))
    return tl.where(named > 0, -1, slot)


@triton.jit
def keep_no_code(place, code, source_place, head, dim, head_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """Store no code."""


@store_target("specimen:torn-duplicate", contract=COMPUTED, cache=Form("slots"), declares="duplicate-slot")
def torn_duplicate(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever every token has a slot of its own."""
    launch(k, v, slots, cache, with_part(keep_scale=keep_no_scale))
    launch(k, v, slots, cache, with_part(pick=pick_first, keep=keep_no_code))  # due: one token for both
