"""Kernels that read or write where they must not, and one whose bytes depend on what was in memory before it."""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, ARG001, INP001, N803, PLR0913, PLR0917, PLR0124 - parts have one signature each (skeleton.py)

from __future__ import annotations

import skeleton  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch
import triton
import triton.language as tl
from skeleton import largest, load, per_448, scale_of

from kvcheck import Cache, Computed, Contract, store_target

#: Two ulps of leeway on the scale: a kernel may be legal in every launch, and still depend on what it must not read.
LENIENT = Contract(scale=Computed("token_head", maximum=448.0, eps=1e-10, derive="divide_approx"), apply="divide")


@triton.jit
def wide_amax(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The amax of one lane more than a head has."""
    return per_448(tl.maximum(largest(load(row, heads, dims, head_stride, inner_stride, HEADS, DIM + 1)), 1e-10))


@store_target("wide-amax", contract=skeleton.COMPUTED)
def wide_amax_store(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Poison: an amax one lane too wide. Scale and codes of a head follow from what lies behind it."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(scale=wide_amax, spare_lanes=1))


@triton.jit
def larger_behind(row, heads, dims, head_stride, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """A row whose last element is what lies behind it, where that is larger."""
    value = load(row, heads, dims, head_stride, inner_stride, HEADS, DIM)
    is_last = (heads == HEADS - 1) & (dims == DIM - 1)
    behind = tl.load(row + heads * head_stride + (dims + 1) * inner_stride, mask=is_last, other=0.0).to(tl.float32)
    return tl.where(tl.abs(behind) > tl.abs(value), behind, value)


@store_target("gap-read", contract=skeleton.GIVEN)
def gap_read(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Poison: a gap read under a static scale. No amax betrays it: the code itself must."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(skeleton.SOUND_GIVEN, load=larger_behind), given=True)


@triton.jit
def zero_times_behind(row, heads, dims, head_stride, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """A row, and zero times what lies behind each head: nothing but where that is NaN or infinite."""
    value = load(row, heads, dims, head_stride, inner_stride, HEADS, DIM)
    is_last = (heads < HEADS) & (dims == DIM - 1)
    behind = tl.load(row + heads * head_stride + (dims + 1) * inner_stride, mask=is_last, other=0.0).to(tl.float32)
    nothing = 0.0 * behind
    return tl.where(nothing == nothing, value, nothing)


@store_target("nan-gap", contract=skeleton.GIVEN)
def nan_gap(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Poison, and row 63: what must not be read is multiplied by zero. Only NaN poison shows it."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(skeleton.SOUND_GIVEN, load=zero_times_behind), given=True)


@triton.jit
def keep_wide_scales(
    place, scale, row, value, heads, dims, head_stride, inner_stride, scales_head,
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK_HEADS: tl.constexpr,
):  # fmt: skip
    """Store the scales of a row whose last head has a lane too many."""
    head = tl.arange(0, BLOCK_HEADS).to(tl.int64)
    mask = (heads < HEADS) & ((dims < DIM) | ((dims == DIM) & (heads == HEADS - 1)))
    wide = tl.load(row + heads * head_stride + dims * inner_stride, mask=mask, other=0.0).to(tl.float32)
    tl.store(place + head * scales_head, per_448(tl.maximum(largest(wide), 1e-10)), mask=head < HEADS)


@store_target("scale-reads-out-of-row", contract=skeleton.COMPUTED)
def scale_reads_out_of_row(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Poison: an out-of-row read that changes only the scale. The codes are right, under another scale."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(keep_scales=keep_wide_scales, spare_lanes=1))


@triton.jit
def keep_all_but_last(
    place, code, heads, dims, codes_slot, codes_head, codes_inner, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """Store the codes of a row, but for its last."""
    mask = (heads < HEADS) & (dims < DIM) & ((heads < HEADS - 1) | (dims < DIM - 1))
    tl.store(place + heads * codes_head + dims * codes_inner, code.to(tl.uint8), mask=mask)


@store_target("lost-last-element", contract=skeleton.COMPUTED)
def lost_last_element(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Poison: a lost last element. One byte a row keeps what was there."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(keep_codes=keep_all_but_last))


@triton.jit
def keep_and_clear_gap(
    place, code, heads, dims, codes_slot, codes_head, codes_inner, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """Store the codes of a row, and zeros between its heads where they lie apart."""
    kept = tl.where(dims < DIM, code, 0)
    mask = (heads < HEADS) & (dims < tl.maximum(codes_head, DIM))
    tl.store(place + heads * codes_head + dims * codes_inner, kept.to(tl.uint8), mask=mask)


@store_target("gap-write", contract=skeleton.COMPUTED)
def gap_write(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Poison: a write into a gap. All rows are right; the padding between the cache's heads is cleared."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(keep_codes=keep_and_clear_gap, spare_lanes=16))


@triton.jit
def running_scale(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The scale of each head, or what stands in its place where that is larger: as if scales began as zeros."""
    scale = scale_of(row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS, DIM)
    head = tl.arange(0, scale.shape[0]).to(tl.int64)
    before = tl.load(place + head * scales_head, mask=head < HEADS, other=0.0)
    return tl.where(before > scale, before, scale)


@store_target("running-scale", contract=skeleton.COMPUTED)
def running_scale_store(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Poison: the result depends on uninitialised memory. A running maximum over scales that nobody set."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(scale=running_scale))


@triton.jit
def nudged_scale(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The scale of each head, one ulp larger where a bit is set in what stands in its place."""
    scale = scale_of(row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS, DIM)
    head = tl.arange(0, scale.shape[0]).to(tl.int64)
    before = tl.load(place + head * scales_head, mask=head < HEADS, other=0.0).to(tl.int32, bitcast=True)
    bits = scale.to(tl.int32, bitcast=True)
    return tl.where(bits < 0x7F000000, bits + (before & 1), bits).to(tl.float32, bitcast=True)


@store_target("nudged-scale", contract=LENIENT)
def nudged_scale_store(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Poison: the result depends on uninitialised memory, and is legal each time. Only unlike launches tell."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(scale=nudged_scale))
