"""Table C: saturation, NaN, and rows of zeros."""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, ARG001, INP001, N803, PLR0913, PLR0917 - parts have one signature each (skeleton.py)

from __future__ import annotations

import skeleton  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch
import triton
import triton.language as tl
from skeleton import byte_above, encode, largest, per_448

from kvcheck import Cache, store_target


@triton.jit
def encode_unsaturated(value, scale, heads, dims, HEADS: tl.constexpr, DIM: tl.constexpr):
    """The codes of a row: NaN for all that rounds beyond 448."""
    scaled = tl.div_rn(value, tl.broadcast_to(scale[:, None], value.shape))
    return tl.where(tl.abs(scaled) > 464.0, 0x7F, encode(value, scale, heads, dims, HEADS, DIM))


@store_target("c33-unsaturated", contract=skeleton.GIVEN)
def unsaturated(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row C33: a cast that does not saturate, where the contract's does."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(skeleton.SOUND_GIVEN, encode=encode_unsaturated), given=True)


@triton.jit
def encode_480(value, scale, heads, dims, HEADS: tl.constexpr, DIM: tl.constexpr):
    """The codes of a row: what rounds to 480 gets the code that 480 would have, which is NaN's."""
    scaled = tl.abs(tl.div_rn(value, tl.broadcast_to(scale[:, None], value.shape)))
    code = encode(value, scale, heads, dims, HEADS, DIM)
    return tl.where((scaled > 464.0) & (scaled < 496.0), code | 0x7F, code)


@store_target("c34-edge", contract=skeleton.GIVEN)
def edge(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row C34: the edges of overflow: 464 is 448, 465 is NaN, and 512 saturates again."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(skeleton.SOUND_GIVEN, encode=encode_480), given=True)


@triton.jit
def encode_by_eights(value, scale, heads, dims, HEADS: tl.constexpr, DIM: tl.constexpr):
    """The codes of a row: in rows of whole vectors of eight, the last one's last lane is NaN."""
    code = encode(value, scale, heads, dims, HEADS, DIM)
    if DIM % 8 == 0:
        code = tl.where(dims == DIM - 1, 0x7F, code)
    return code


@store_target("c35-vector-of-eight", contract=skeleton.COMPUTED)
def vector_of_eight(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row C35: NaN from a path that is taken for whole vectors of eight alone."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(encode=encode_by_eights))


@triton.jit
def scale_without_eps(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The scale of each head: zero for a row of zeros."""
    return per_448(largest(value))


@store_target("c36-no-eps", contract=skeleton.COMPUTED)
def no_eps(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row C36: 0 / 0 for a block of zeros: NaN codes, and a scale of zero."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(scale=scale_without_eps))


@triton.jit
def encode_by_amax(value, scale, heads, dims, HEADS: tl.constexpr, DIM: tl.constexpr):
    """The codes of a row, divided by its amax first: NaN where that is zero."""
    amax = tl.broadcast_to(largest(value)[:, None], value.shape)
    return tl.where(amax == 0.0, 0x7F, encode(value, scale, heads, dims, HEADS, DIM))


@store_target("c37-zero-row", contract=skeleton.COMPUTED)
def zero_row(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row C37: a row of zeros among others turns to NaN; its scale is right."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(encode=encode_by_amax))


@triton.jit
def e8m0_without_eps(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The scale of each head, rounded up to a power of two: the exponent of a zero is taken as it is."""
    return (byte_above(per_448(largest(value))) << 23).to(tl.float32, bitcast=True)


@store_target("c38-e8m0-of-zero", contract=skeleton.E8M0)
def e8m0_of_zero(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row C38: the E8M0 exponent of a zero amax. All codes are right."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(skeleton.SOUND_E8M0, scale=e8m0_without_eps))


@triton.jit
def keep_unclamped_scales(
    place, scale, row, value, heads, dims, head_stride, inner_stride, scales_head,
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK_HEADS: tl.constexpr,
):  # fmt: skip
    """Store the exponents of the scales of a row, with nothing that keeps them from 255."""
    head = tl.arange(0, BLOCK_HEADS).to(tl.int64)
    bits = per_448(tl.maximum(largest(value), 1e-10)).to(tl.int32, bitcast=True)
    tl.store(place + head * scales_head, ((bits + 0x7FFFFF) >> 23).to(tl.uint8), mask=head < HEADS)


@store_target("c39-scale-is-nan", contract=skeleton.E8M0)
def scale_is_nan(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row C39: a scale that is cast to its 8 bits unclamped, and becomes the byte that means NaN.

    There the scales are e4m3 and the byte is 0x7F; kvcheck's narrowest are E8M0, with 0xFF.
    """
    skeleton.store(k, v, slots, cache, skeleton.with_part(skeleton.SOUND_E8M0, keep_scales=keep_unclamped_scales))
