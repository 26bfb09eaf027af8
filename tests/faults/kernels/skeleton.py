"""A small store of one tensor, made of parts, so that a kernel with one fault is one part exchanged.

Each part is a Triton function. `store_rows` calls them in this order, one program a token: `PICK` the slot, `LOAD` the
row, `SCALE` it, `ENCODE` it, and `KEEP` what is stored beside the codes.
"""  # noqa: INP001 - as a user's folder: no package

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, N803, PLR0913, PLR0917, PLR0124 - a Triton kernel's parameters are the compiler's

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
import triton
import triton.language as tl

from kvcheck import Cache, Computed, Contract, Given
from kvcheck.kernels.encode import encode_e4m3fn
from kvcheck.kernels.store import SLOTS_A_STEP, is_named_later

COMPUTED = Contract(scale=Computed("token_head", maximum=448.0, eps=1e-10, derive="divide"), apply="divide")
GIVEN = Contract(scale=Given("tensor"), apply="divide")
TOKEN = Contract(scale=Computed("token", maximum=448.0, eps=1e-10, derive="divide"), apply="divide")
E8M0 = Contract(scale=Computed("token_head", maximum=448.0, eps=1e-10, derive="divide", dtype="ue8m0"), apply="divide")


@triton.jit
def pick(slots, slots_stride, slots_count, token, cache_slots, STEP: tl.constexpr):  # noqa: ARG001 - one signature
    """The slot of a token, or -1: of tokens that share one, only the last is stored."""
    slot = tl.load(slots + token * slots_stride).to(tl.int64)
    return tl.where(is_named_later(slots, slots_stride, slots_count, token, slot, STEP), -1, slot)


@triton.jit
def load(row, heads, dims, head_stride, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """A row `[BLOCK_HEADS, BLOCK_DIM]` as fp32, zero beyond its heads and dims."""
    mask = (heads < HEADS) & (dims < DIM)
    return tl.load(row + heads * head_stride + dims * inner_stride, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def largest(value):
    """The amax of each head, NaNs left out."""
    magnitude = tl.abs(value)
    return tl.max(tl.where(magnitude == magnitude, magnitude, 0.0), axis=1)


@triton.jit
def per_448(amax):
    """The scale of an amax."""
    return tl.div_rn(amax, tl.full(amax.shape, 448.0, tl.float32))


@triton.jit
def scale_of(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr,  # noqa: ARG001 - one signature
):  # fmt: skip
    """The scale of each head: its amax, or 1e-10, over 448."""
    return per_448(tl.maximum(largest(value), 1e-10))


@triton.jit
def token_scale(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr,  # noqa: ARG001 - one signature
):  # fmt: skip
    """The scale of the whole token, for each head."""
    amax = largest(value)
    return per_448(tl.maximum(tl.max(amax, axis=0) + tl.zeros_like(amax), 1e-10))


@triton.jit
def byte_above(scale):
    """The E8M0 byte of the least power of two that is no smaller than a scale: at least 1 and at most 254."""
    bits = scale.to(tl.int32, bitcast=True)
    return tl.minimum(tl.maximum((bits + 0x7FFFFF) >> 23, 1), 254)


@triton.jit
def e8m0_scale(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr,  # noqa: ARG001 - one signature
):  # fmt: skip
    """The scale of each head, rounded up to a power of two."""
    scale = per_448(tl.maximum(largest(value), 1e-10))
    return (byte_above(scale) << 23).to(tl.float32, bitcast=True)


@triton.jit
def given_scale(
    row, value, heads, dims, head_stride, inner_stride, place, scales_head, HEADS: tl.constexpr, DIM: tl.constexpr,  # noqa: ARG001 - one signature
):  # fmt: skip
    """The one scale that is given, for each head."""
    return tl.load(place) + tl.zeros_like(largest(value))


@triton.jit
def encode(value, scale, heads, dims, HEADS: tl.constexpr, DIM: tl.constexpr):  # noqa: ARG001 - one signature
    """The codes of a row."""
    return encode_e4m3fn(tl.div_rn(value, tl.broadcast_to(scale[:, None], value.shape)))


@triton.jit
def keep_codes(
    place, code, heads, dims, codes_slot, codes_head, codes_inner, HEADS: tl.constexpr, DIM: tl.constexpr,  # noqa: ARG001 - one signature
):  # fmt: skip
    """Store the codes of a row at `place`."""
    mask = (heads < HEADS) & (dims < DIM)
    tl.store(place + heads * codes_head + dims * codes_inner, code.to(tl.uint8), mask=mask)


@triton.jit
def keep_scales(
    place, scale, row, value, heads, dims, head_stride, inner_stride, scales_head,  # noqa: ARG001 - one signature
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK_HEADS: tl.constexpr,  # noqa: ARG001
):  # fmt: skip
    """Store the scales of a row at `place`."""
    head = tl.arange(0, BLOCK_HEADS).to(tl.int64)
    tl.store(place + head * scales_head, scale, mask=head < HEADS)


@triton.jit
def keep_token_scale(
    place, scale, row, value, heads, dims, head_stride, inner_stride, scales_head,  # noqa: ARG001 - one signature
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK_HEADS: tl.constexpr,  # noqa: ARG001
):  # fmt: skip
    """Store the one scale of a row at `place`."""
    tl.store(place, tl.max(scale, axis=0))


@triton.jit
def keep_e8m0_scales(
    place, scale, row, value, heads, dims, head_stride, inner_stride, scales_head,  # noqa: ARG001 - one signature
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK_HEADS: tl.constexpr,  # noqa: ARG001
):  # fmt: skip
    """Store the exponents of the scales of a row at `place`."""
    head = tl.arange(0, BLOCK_HEADS).to(tl.int64)
    byte = scale.to(tl.int32, bitcast=True) >> 23
    tl.store(place + head * scales_head, byte.to(tl.uint8), mask=head < HEADS)


@triton.jit
def keep_nothing(
    place, scale, row, value, heads, dims, head_stride, inner_stride, scales_head,
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK_HEADS: tl.constexpr,
):  # fmt: skip
    """Store no scale: it is given."""


@triton.jit
def store_rows(
    source, slots, codes, scales,
    source_token, source_head, source_inner, slots_stride, slots_count,
    codes_slot, codes_head, codes_inner, scales_slot, scales_head, cache_slots,
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK_HEADS: tl.constexpr, BLOCK_DIM: tl.constexpr, STEP: tl.constexpr,
    PICK: tl.constexpr, LOAD: tl.constexpr, SCALE: tl.constexpr, ENCODE: tl.constexpr, KEEP_CODES: tl.constexpr,
    KEEP_SCALES: tl.constexpr,
):  # fmt: skip
    """Store one token of one tensor."""
    token = tl.program_id(0).to(tl.int64)
    slot = PICK(slots, slots_stride, slots_count, token, cache_slots, STEP)
    if slot >= 0:
        heads = tl.arange(0, BLOCK_HEADS).to(tl.int64)[:, None]
        dims = tl.arange(0, BLOCK_DIM).to(tl.int64)[None, :]
        row = source + token * source_token
        place = scales + slot * scales_slot
        value = LOAD(row, heads, dims, source_head, source_inner, HEADS, DIM)
        scale = SCALE(row, value, heads, dims, source_head, source_inner, place, scales_head, HEADS, DIM)
        code = ENCODE(value, scale, heads, dims, HEADS, DIM)
        KEEP_CODES(codes + slot * codes_slot, code, heads, dims, codes_slot, codes_head, codes_inner, HEADS, DIM)
        KEEP_SCALES(
            place, scale, row, value, heads, dims, source_head, source_inner, scales_head, HEADS, DIM, BLOCK_HEADS
        )


class Part(Protocol):
    """A Triton function."""

    def __call__(self, *args: object) -> object:
        """One part of the kernel, called by it."""


@dataclass(frozen=True)
class Parts:
    """What a store is made of.

    `spare_lanes` widens the block: so many lanes at least lie beyond the row. `exact_dims` has no lane beyond it,
    `exact_heads` no head beyond the last.
    """

    pick: Part = pick
    load: Part = load
    scale: Part = scale_of
    encode: Part = encode
    keep_codes: Part = keep_codes
    keep_scales: Part = keep_scales
    spare_lanes: int = 0
    exact_dims: bool = False
    exact_heads: bool = False


SOUND = Parts()
SOUND_GIVEN = Parts(scale=given_scale, keep_scales=keep_nothing)
SOUND_TOKEN = Parts(scale=token_scale, keep_scales=keep_token_scale)
SOUND_E8M0 = Parts(scale=e8m0_scale, keep_scales=keep_e8m0_scales)


def with_part(parts: Parts = SOUND, **parts_: Part | int) -> Parts:
    """`parts` with others in their place."""
    return replace(parts, **parts_)  # type: ignore[arg-type] # each is of its field's type


def store(
    k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache, parts: Parts = SOUND, *, given: bool = False,
    tokens: int | None = None, strides: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
) -> None:  # fmt: skip
    """Store K, then V, with these parts: `tokens` programs (one a slot), `strides` (their own) into K and V."""
    count = len(slots) if tokens is None else tokens
    if count == 0:
        return
    own = (k.stride(), v.stride()) if strides is None else strides
    for rows, side, (token, head, inner) in ((k, cache.k, own[0]), (v, cache.v, own[1])):
        _, heads, dim = rows.shape
        scales = side.scale if given else side.scales
        scale_strides = (0, 0) if given else scales.stride()[:2]
        block = (
            heads if parts.exact_heads else triton.next_power_of_2(heads),
            dim if parts.exact_dims else triton.next_power_of_2(dim + parts.spare_lanes),
        )
        store_rows[(count,)](
            rows, slots, side.codes, scales, token, head, inner, slots.stride(0), len(slots), *side.codes.stride(),
            *scale_strides, cache.slots, HEADS=heads, DIM=dim, BLOCK_HEADS=block[0], BLOCK_DIM=block[1],
            STEP=SLOTS_A_STEP, PICK=parts.pick, LOAD=parts.load, SCALE=parts.scale, ENCODE=parts.encode,
            KEEP_CODES=parts.keep_codes, KEEP_SCALES=parts.keep_scales,
        )  # fmt: skip
