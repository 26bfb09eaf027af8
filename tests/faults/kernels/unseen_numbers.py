"""Unseen kernels: scales, codes, and the order in which they are made.

Written before any of them was run: each as an engine would get it wrong, with the fault that it declares.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, ARG001, INP001, N803, PLR0913, PLR0917 - parts have one signature each (skeleton.py)

from __future__ import annotations

import skeleton  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch
import triton
import triton.language as tl
from skeleton import largest, per_448, scale_of

from kvcheck import Cache, Computed, Contract, Form, Given, store_target
from kvcheck.kernels.encode import encode_e4m3fn

BLOCKS = Contract(scale=Computed("block:32", maximum=448.0, eps=1e-10, derive="divide"), apply="divide")
BY_HEAD = Contract(scale=Given("head"), apply="divide")
INT8 = Contract(scale=Computed("token_head", maximum=127.0, eps=1e-10, derive="divide"), apply="divide", format="int8")


@triton.jit
def growing_scale(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The scale of each head, by an amax that no head resets."""
    amax = largest(value)
    head = tl.arange(0, amax.shape[0])
    grown = tl.max(tl.where(head[None, :] <= head[:, None], amax[None, :], 0.0), axis=1)
    return per_448(tl.maximum(grown, 1e-10))


@store_target("amax-not-reset", contract=skeleton.COMPUTED, declares="amax-population")
def amax_not_reset(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """One program for all heads of a token, and one amax that grows from head to head."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(scale=growing_scale))


@triton.jit
def stored_scale(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The scale that stands in the cache."""
    head = tl.arange(0, value.shape[0]).to(tl.int64)
    return tl.load(place + head * scales_head, mask=head < HEADS, other=1.0)


@triton.jit
def keep_own_scales(
    place, scale, row, value, heads, dims, head_stride, inner_stride, scales_head,
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK_HEADS: tl.constexpr,
):  # fmt: skip
    """Store the scales that the row has."""
    head = tl.arange(0, BLOCK_HEADS).to(tl.int64)
    own = scale_of(row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS, DIM)
    tl.store(place + head * scales_head, own, mask=head < HEADS)


@store_target("scale-read-too-soon", contract=skeleton.COMPUTED, declares="uninitialised-read")
def scale_read_too_soon(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Codes by the scale that the slot had before; the row's own is stored after."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(scale=stored_scale, keep_scales=keep_own_scales))


@triton.jit
def keep_padded_scales(
    place, scale, row, value, heads, dims, head_stride, inner_stride, scales_head,
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK_HEADS: tl.constexpr,
):  # fmt: skip
    """Store the scales of a row two numbers apart."""
    head = tl.arange(0, BLOCK_HEADS).to(tl.int64)
    tl.store(place + head * 2, scale, mask=head < HEADS)


@store_target("scales-two-apart", contract=skeleton.COMPUTED, declares="scale-address")
def scales_two_apart(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Scales as (K, V) pairs, in a cache that keeps them apart."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(keep_scales=keep_padded_scales))


@triton.jit
def scale_in_fp16(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The scale of each head, made and kept in fp16."""
    return per_448(tl.maximum(largest(value), 1e-10)).to(tl.float16).to(tl.float32)


@store_target("scale-in-fp16", contract=skeleton.COMPUTED, declares="scale-rounded")
def scale_in_half(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Scales of half precision, in use as well."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(scale=scale_in_fp16))


@triton.jit
def blocks(source, slots, codes, scales, token_stride, head_stride, slots_stride, codes_slot, codes_head,
           scales_slot, scales_head, scales_block, DIM: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Store one (token, head) in blocks of 32 elements, of which half are seen by the amax."""
    token, head = tl.program_id(0), tl.program_id(1)
    slot = tl.load(slots + token * slots_stride).to(tl.int64)
    if slot >= 0:
        number, lanes = tl.arange(0, BLOCK)[:, None], tl.arange(0, 32)[None, :]
        dims = number * 32 + lanes
        value = tl.load(source + token * token_stride + head * head_stride + dims, mask=dims < DIM, other=0.0)
        value = value.to(tl.float32)
        amax = tl.maximum(tl.max(tl.where(lanes < 16, tl.abs(value), 0.0), axis=1), 1e-10)
        scale = tl.div_rn(amax, tl.full(amax.shape, 448.0, tl.float32))
        code = encode_e4m3fn(tl.div_rn(value, tl.broadcast_to(scale[:, None], value.shape)))
        tl.store(codes + slot * codes_slot + head * codes_head + dims, code.to(tl.uint8), mask=dims < DIM)
        place = scales + slot * scales_slot + head * scales_head + tl.arange(0, BLOCK) * scales_block
        tl.store(place, scale, mask=tl.arange(0, BLOCK) * 32 < DIM)


@store_target("half-block-amax", contract=BLOCKS, declares="amax-population")
def half_block_amax(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """An amax over the first 16 elements of each block of 32."""
    for rows, side in ((k, cache.k), (v, cache.v)):
        _, heads, dim = rows.shape
        if len(slots):
            blocks[(len(slots), heads)](
                rows, slots, side.codes, side.scales, *rows.stride()[:2], slots.stride(0), *side.codes.stride()[:2],
                *side.scales.stride(), DIM=dim, BLOCK=triton.next_power_of_2(dim // 32),
            )  # fmt: skip


@triton.jit
def scale_by_exponent(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The exponent of the amax less eight, as some microscaling formats have it."""
    amax = tl.maximum(largest(value), 1e-10)
    exponent = ((amax.to(tl.int32, bitcast=True) >> 23) & 0xFF) - 8
    return (tl.maximum(exponent, 1) << 23).to(tl.float32, bitcast=True)


@store_target("exponent-less-eight", contract=skeleton.E8M0, cache=Form(), declares="scale-rounded")
def exponent_less_eight(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A power of two that may be too small for the amax."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(skeleton.SOUND_E8M0, scale=scale_by_exponent))


@triton.jit
def encode_from_bf16(value, scale, heads, dims, HEADS: tl.constexpr, DIM: tl.constexpr):
    """The codes of a row whose values are rounded to bf16, after the amax was taken."""
    bits = value.to(tl.int32, bitcast=True)
    narrow = ((bits + 0x7FFF + ((bits >> 16) & 1)) & -65536).to(tl.float32, bitcast=True)
    return encode_e4m3fn(tl.div_rn(narrow, tl.broadcast_to(scale[:, None], value.shape)))


@store_target("bf16-after-the-amax", contract=skeleton.COMPUTED, declares="double-rounding-bf16")
def bf16_after_the_amax(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Scales of the values as they were, codes of the values as bf16."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(encode=encode_from_bf16))


@store_target("scales-of-the-next-slot", contract=skeleton.COMPUTED, declares="scale-address")
def scales_of_the_next_slot(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Scales stored by a second kernel, whose slots are one token ahead."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(keep_scales=skeleton.keep_nothing))
    skeleton.store(k, v, torch.roll(slots, -1), cache, skeleton.with_part(keep_codes=keep_no_codes))


@triton.jit
def keep_no_codes(
    place, code, heads, dims, codes_slot, codes_head, codes_inner, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """Store no code."""


@triton.jit
def scale_with_a_hole(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The scale of each head, by an amax that leaves out lanes 32 to 63."""
    seen = tl.where((dims < 32) | (dims >= 64), value, 0.0)
    return per_448(tl.maximum(largest(seen), 1e-10))


@store_target("amax-without-a-warp", contract=skeleton.COMPUTED, declares="amax-population")
def amax_without_a_warp(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A reduction that loses the second warp's part."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(scale=scale_with_a_hole))


@triton.jit
def last_heads_scale(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The scale that is given for the last head, for each head."""
    return tl.load(place + HEADS - 1) + tl.zeros_like(largest(value))


@store_target("scale-of-the-last-head", contract=BY_HEAD, cache=Form(scales="none"), declares="scale-address")
def scale_of_the_last_head(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A scale for each head, of which the last one is used for all."""
    parts = skeleton.with_part(skeleton.SOUND_GIVEN, scale=last_heads_scale)
    skeleton.store(k, v, slots, cache, parts, given=True)


@triton.jit
def encode_unclamped(value, scale, heads, dims, HEADS: tl.constexpr, DIM: tl.constexpr):
    """Codes without a limit: what is too large runs over into the sign."""
    scaled = tl.div_rn(value, tl.broadcast_to(scale[:, None], value.shape))
    bits = scaled.to(tl.int32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    normal = ((magnitude + 0x0007FFFF + ((magnitude >> 20) & 1)) >> 20) - 960
    code = tl.where(magnitude < 0x3C800000, encode_e4m3fn(scaled) & 0x7F, normal)
    return (code & 0xFF) | ((bits >> 24) & 0x80)


@store_target("no-limit", contract=skeleton.GIVEN, cache=Form(scales="none"), declares="overflow-to-nan")
def no_limit(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A software encoder that does not saturate."""
    parts = skeleton.with_part(skeleton.SOUND_GIVEN, encode=encode_unclamped)
    skeleton.store(k, v, slots, cache, parts, given=True)


@triton.jit
def encode_half_down(value, scale, heads, dims, HEADS: tl.constexpr, DIM: tl.constexpr):
    """Codes of values rounded to nearest, ties toward zero."""
    scaled = tl.div_rn(value, tl.broadcast_to(scale[:, None], value.shape))
    bits = scaled.to(tl.int32, bitcast=True)
    nudged = tl.where((bits & 0x7FFFFFFF) > 0, bits - 1, bits).to(tl.float32, bitcast=True)
    return encode_e4m3fn(nudged)


@store_target("ties-toward-zero", contract=skeleton.GIVEN, cache=Form(scales="none"), declares="rounding-mode")
def ties_toward_zero(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Half a step is not enough to go up."""
    parts = skeleton.with_part(skeleton.SOUND_GIVEN, encode=encode_half_down)
    skeleton.store(k, v, slots, cache, parts, given=True)


@triton.jit
def encode_cut_subnormals(value, scale, heads, dims, HEADS: tl.constexpr, DIM: tl.constexpr):
    """Codes of which those below the least normal one are cut off, not rounded."""
    scaled = tl.div_rn(value, tl.broadcast_to(scale[:, None], value.shape))
    code = encode_e4m3fn(scaled)
    cut = (tl.abs(scaled) * 512.0).to(tl.int32) | (code & 0x80)
    return tl.where(tl.abs(scaled) < 0.015625, cut, code)


@store_target("subnormals-cut", contract=skeleton.COMPUTED, declares="rounding-mode")
def subnormals_cut(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A path of its own for subnormal codes, which truncates."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(encode=encode_cut_subnormals))


@triton.jit
def encode_limited_above(value, scale, heads, dims, HEADS: tl.constexpr, DIM: tl.constexpr):
    """Codes of values that are limited above, and below are not: there they become NaN."""
    scaled = tl.div_rn(value, tl.broadcast_to(scale[:, None], value.shape))
    return tl.where(scaled < -464.0, 0xFF, encode_e4m3fn(scaled))


@store_target("limited-above", contract=skeleton.GIVEN, cache=Form(scales="none"), declares="overflow-to-nan")
def limited_above(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A minimum without its maximum."""
    parts = skeleton.with_part(skeleton.SOUND_GIVEN, encode=encode_limited_above)
    skeleton.store(k, v, slots, cache, parts, given=True)


@triton.jit
def encode_from_a_quarter(value, scale, heads, dims, HEADS: tl.constexpr, DIM: tl.constexpr):
    """Codes of values that go up from a quarter of a step on: the constant that is added is one bit too high."""
    scaled = tl.div_rn(value, tl.broadcast_to(scale[:, None], value.shape))
    code = encode_e4m3fn(scaled)
    magnitude = scaled.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    normal = tl.minimum(((magnitude + 0x000C0000) >> 20) - 960, 0x7E) | (code & 0x80)
    return tl.where((magnitude < 0x3C800000) | (code == 0x7F), code, normal)


@store_target("up-from-a-quarter", contract=skeleton.COMPUTED, declares="rounding-mode")
def up_from_a_quarter(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A software encoder with a wrong constant."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(encode=encode_from_a_quarter))


@triton.jit
def scale_127(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The scale of each head for 127."""
    amax = tl.maximum(largest(value), 1e-10)
    return tl.div_rn(amax, tl.full(amax.shape, 127.0, tl.float32))


@triton.jit
def encode_half_added(value, scale, heads, dims, HEADS: tl.constexpr, DIM: tl.constexpr):
    """Integers: half is added, and what lies behind the point is cut off, below zero as well."""
    scaled = tl.div_rn(value, tl.broadcast_to(scale[:, None], value.shape))
    return (scaled + 0.5).to(tl.int32) & 0xFF


@store_target("half-added", contract=INT8, cache=Form(codes="int8"), declares="rounding-mode")
def half_added(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A rounding that is right for positive numbers alone."""
    parts = skeleton.with_part(scale=scale_127, encode=encode_half_added)
    skeleton.store(k, v, slots, cache, parts)


@triton.jit
def limited_scale(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The scale of each head, limited to 2^-9 as engines limit theirs."""
    return tl.minimum(
        scale_of(row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS, DIM), 0.001953125
    )


@store_target("scale-limited", contract=skeleton.COMPUTED, declares="wrong-max")
def scale_limited(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """An upper bound on the scale, which large rows exceed."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(scale=limited_scale))


@triton.jit
def scale_of_masked_ones(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The scale of each head, by an amax whose masked lanes hold ones."""
    return per_448(tl.maximum(largest(tl.where(dims < DIM, value, 1.0)), 1e-10))


@store_target("masked-lanes-are-ones", contract=skeleton.COMPUTED, declares="amax-population")
def masked_lanes_are_ones(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Lanes beyond the head with another value than nothing."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(scale=scale_of_masked_ones))
