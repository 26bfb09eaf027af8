"""Table F, without graphs: which rows are stored, and where."""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, ARG001, INP001, N803, PLR0913, PLR0917 - parts have one signature each (skeleton.py)

from __future__ import annotations

import skeleton  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch
import triton
import triton.language as tl

from kvcheck import Cache, store_target


@store_target("f52-tokens-of-k", contract=skeleton.COMPUTED)
def tokens_of_k(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row F52: as many tokens as K has rows, not as there are slots. Padding is stored wherever what follows says."""
    skeleton.store(k, v, slots, cache, tokens=len(k))


@triton.jit
def pick_or_reserved(slots, slots_stride, slots_count, token, cache_slots, STEP: tl.constexpr):
    """The slot of a token; 0, a reserved one, where it is negative."""
    return tl.maximum(tl.load(slots + token * slots_stride).to(tl.int64), 0)


@store_target("f53-reserved-slot", contract=skeleton.COMPUTED)
def reserved_slot(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row F53: padding goes to slot 0, with whatever values it has."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(pick=pick_or_reserved))


@triton.jit
def pick_from_the_end(slots, slots_stride, slots_count, token, cache_slots, STEP: tl.constexpr):
    """The slot of a token; counted from the cache's end where it is negative."""
    slot = tl.load(slots + token * slots_stride).to(tl.int64)
    return tl.where(slot < 0, slot + cache_slots, slot)


@store_target("f55-wrapped-slot", contract=skeleton.COMPUTED)
def wrapped_slot(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row F55: a negative slot wraps to the last page."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(pick=pick_from_the_end))


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
def keep_no_codes(
    place, code, heads, dims, codes_slot, codes_head, codes_inner, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """Store no code."""


@store_target("f57-torn-pair", contract=skeleton.COMPUTED)
def torn_pair(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row F57: tokens that share a slot race: codes of one, scale of the other. Here the same each time."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(keep_scales=skeleton.keep_nothing))
    skeleton.store(k, v, slots, cache, skeleton.with_part(pick=pick_first, keep_codes=keep_no_codes))


@triton.jit
def keep_first_half(
    place, code, heads, dims, codes_slot, codes_head, codes_inner, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """Store the first half of each head."""
    mask = (heads < HEADS) & (dims < DIM // 2)
    tl.store(place + heads * codes_head + dims * codes_inner, code.to(tl.uint8), mask=mask)


@store_target("f59-torn-row", contract=skeleton.COMPUTED)
def torn_row(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row F59: tokens that share a slot race within the row. Here the second half is one's, the first the other's."""
    skeleton.store(k, v, slots, cache)
    first = skeleton.with_part(pick=pick_first, keep_codes=keep_first_half, keep_scales=skeleton.keep_nothing)
    skeleton.store(k, v, slots, cache, first)
