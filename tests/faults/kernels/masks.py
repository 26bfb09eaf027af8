"""Table D: masks, and sizes that are no powers of two."""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, ARG001, INP001, N803, PLR0913, PLR0917 - parts have one signature each (skeleton.py)

from __future__ import annotations

import skeleton  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch
import triton
import triton.language as tl
from skeleton import load

from kvcheck import Cache, store_target


@store_target("d41-range", contract=skeleton.COMPUTED)
def plain_range(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row D41: a range of just the heads and dims that there are. Triton has none but powers of two."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(exact_dims=True, exact_heads=True))


@store_target("d43-heads-range", contract=skeleton.COMPUTED)
def range_of_heads(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row D43: the range of heads alone is of just those that there are."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(exact_heads=True))


@triton.jit
def keep_whole_block(
    place, code, heads, dims, codes_slot, codes_head, codes_inner, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """Store the codes of a row, and those of the lanes behind it."""
    tl.store(place + heads * codes_head + dims * codes_inner, code.to(tl.uint8), mask=heads < HEADS)


@store_target("d41-no-mask", contract=skeleton.COMPUTED)
def no_mask(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row D41: a range of the next power of two, and no mask at the store."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(keep_codes=keep_whole_block))


@triton.jit
def load_full_tiles_unmasked(row, heads, dims, head_stride, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """A row; where its heads fill the block's lanes, the mask is dropped, and with it that of the heads."""
    value = load(row, heads, dims, head_stride, inner_stride, HEADS, DIM)
    if dims.shape[1] == DIM:
        value = tl.load(row + heads * head_stride + dims * inner_stride).to(tl.float32)
    return value


@store_target("d44-full-tile", contract=skeleton.TOKEN)
def full_tile(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row D44: the load's mask is left out for sizes that fill a tile, and the amax takes in what lies behind."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(skeleton.SOUND_TOKEN, load=load_full_tiles_unmasked))
