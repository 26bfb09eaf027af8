"""Unseen kernels: where rows are read, and where codes go.

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
from skeleton import SOUND, Parts

from kvcheck import Cache, Form, store_target
from kvcheck.kernels.encode import encode_e4m3fn


@triton.jit
def keep_whole_chunks(
    place, code, heads, dims, codes_slot, codes_head, codes_inner, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """Store the codes of a row as one flat run, in chunks of 128 of which the last one is left out if not full."""
    flat = heads * DIM + dims
    mask = (heads < HEADS) & (dims < DIM) & (flat < HEADS * DIM // 128 * 128)
    tl.store(place + heads * codes_head + dims * codes_inner, code.to(tl.uint8), mask=mask)


@store_target("whole-chunks", contract=skeleton.COMPUTED, declares="tail-mask")
def whole_chunks(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A vectorised copy without a remainder loop."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(keep_codes=keep_whole_chunks))


@triton.jit
def pick_halves(slots, slots_stride, slots_count, token, cache_slots, STEP: tl.constexpr):
    """The token's number-th half of the slots: they are 64 bits wide and read as 32."""
    return tl.load(slots.to(tl.pointer_type(tl.int32)) + token * slots_stride).to(tl.int64)


@store_target("slots-as-int32", contract=skeleton.COMPUTED, declares="cache-layout")
def slots_as_int32(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Slots of int64 read as int32."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(pick=pick_halves))


@triton.jit
def pick_side_by_side(slots, slots_stride, slots_count, token, cache_slots, STEP: tl.constexpr):
    """The slot of a token, if slots lay side by side."""
    return tl.load(slots + token).to(tl.int64)


@store_target("slots-side-by-side", contract=skeleton.COMPUTED, declares="cache-layout")
def slots_side_by_side(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A slot tensor with a stride, read as if it had none."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(pick=pick_side_by_side))


@triton.jit
def keep_padded_heads(
    place, code, heads, dims, codes_slot, codes_head, codes_inner, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """Store each head as many codes behind the last as the block has lanes."""
    place = place + heads * dims.shape[1] + dims
    tl.store(place, code.to(tl.uint8), mask=(heads < HEADS) & (dims < DIM))


@store_target("padded-head-dim", contract=skeleton.COMPUTED, declares="cache-layout")
def padded_head_dim(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """The padded head_dim for the cache's head stride."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(keep_codes=keep_padded_heads))


@triton.jit
def pick_even(slots, slots_stride, slots_count, token, cache_slots, STEP: tl.constexpr):
    """K's row of a slot, if those of K and V alternated."""
    return tl.load(slots + token * slots_stride).to(tl.int64) * 2


@store_target("k-v-alternate", contract=skeleton.COMPUTED, declares="cache-layout")
def k_v_alternate(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Rows at twice their slot's number, as in a cache where K's and V's alternate."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(pick=pick_even))


@store_target("pitch-of-q-heads", contract=skeleton.COMPUTED, declares="foreign-read")
def pitch_of_q_heads(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Rows as far apart as the query's, which has four heads for each of K's."""
    _, heads, dim = v.shape
    wide = (4 * heads * dim, dim, 1)
    skeleton.store(k, v, slots, cache, strides=(k.stride(), wide))


@triton.jit
def load_every_second_head(row, heads, dims, head_stride, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """A row whose head h is the source's 2 h, counted round."""
    mask = (heads < HEADS) & (dims < DIM)
    taken = 2 * heads % HEADS
    return tl.load(row + taken * head_stride + dims * inner_stride, mask=mask, other=0.0).to(tl.float32)


@store_target("head-modulo", contract=skeleton.COMPUTED, declares="head-mapping")
def head_modulo(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """The head of a group taken by a remainder where a quotient is due."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(load=load_every_second_head))


@triton.jit
def keep_split(place, code, heads, dims, codes_slot, codes_head, codes_inner, HEADS: tl.constexpr, DIM: tl.constexpr):
    """Store the codes of a row as [dim / 16, heads, 16]."""
    place = place + (dims // 16 * HEADS + heads) * 16 + dims % 16
    tl.store(place, code.to(tl.uint8), mask=(heads < HEADS) & (dims < DIM))


@store_target("split-by-16", contract=skeleton.COMPUTED, declares="cache-layout")
def split_by_16(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A cache taken to be split along the head's elements, as some attention kernels want it."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(keep_codes=keep_split))


@triton.jit
def pick_in_window(slots, slots_stride, slots_count, token, cache_slots, STEP: tl.constexpr):
    """The slot of a token in a window of eight."""
    return tl.load(slots + token * slots_stride).to(tl.int64) % 8


@store_target("window-of-eight", contract=skeleton.COMPUTED, declares="cache-layout")
def window_of_eight(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A sliding window's slots in a cache that has none."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(pick=pick_in_window))


@store_target("sorted-slots", contract=skeleton.COMPUTED, declares="cache-layout")
def sorted_slots(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Slots sorted, and the rows not with them."""
    skeleton.store(k, v, torch.sort(slots).values, cache)


@triton.jit
def keep_at_vectors(
    place, code, heads, dims, codes_slot, codes_head, codes_inner, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """Store each head from the vector of 16 bytes on that it begins in."""
    place = place + heads * codes_head // 16 * 16 + dims
    tl.store(place, code.to(tl.uint8), mask=(heads < HEADS) & (dims < DIM))


@store_target(
    "rows-at-vectors", contract=skeleton.COMPUTED, cache=Form("slots", scales="inline"), declares="misaligned"
)
def rows_at_vectors(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Heads with inline scales, addressed in whole vectors."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(keep_codes=keep_at_vectors))


def one_side(rows: torch.Tensor, slots: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor, parts: Parts) -> None:
    """Store one tensor's rows into any cache."""
    _, heads, dim = rows.shape
    if len(slots):
        skeleton.store_rows[(len(slots),)](
            rows, slots, codes, scales, *rows.stride(), slots.stride(0), len(slots), *codes.stride(),
            *scales.stride()[:2], 0, HEADS=heads, DIM=dim, BLOCK_HEADS=triton.next_power_of_2(heads),
            BLOCK_DIM=triton.next_power_of_2(dim), STEP=skeleton.SLOTS_A_STEP, PICK=parts.pick, LOAD=parts.load,
            SCALE=parts.scale, ENCODE=parts.encode, KEEP_CODES=parts.keep_codes, KEEP_SCALES=parts.keep_scales,
        )  # fmt: skip


@store_target("caches-exchanged", contract=skeleton.COMPUTED, declares="cache-layout")
def caches_exchanged(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """K's rows in V's cache and the other way, whatever their head_dim."""
    one_side(k, slots, cache.v.codes, cache.v.scales, SOUND)
    one_side(v, slots, cache.k.codes, cache.k.scales, SOUND)


@store_target(
    "inline-pad-ignored", contract=skeleton.COMPUTED, cache=Form("slots", scales="inline", inline_pad=12),
    declares="cache-layout",
)  # fmt: skip
def inline_pad_ignored(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Heads with inline scales, each taken to follow the last one's scale at once."""
    for rows, side in ((k, cache.k), (v, cache.v)):
        _, heads, dim = rows.shape
        codes, scales, width = side.codes, side.scales, dim + 4
        codes = codes.as_strided(codes.shape, (heads * width, width, 1))
        scales = scales.as_strided(scales.shape, (heads * width // 4, width // 4))
        one_side(rows, slots, codes, scales, SOUND)


@triton.jit
def pairs(source, slots, codes, scales, token_stride, head_stride, slots_stride, codes_slot, codes_head, scales_slot,
          count, DIM: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Store two tokens of a head: the second one's number is kept below the count, its row's address is not."""
    head = tl.program_id(1)
    lanes = tl.arange(0, BLOCK)
    for second in range(2):
        token = tl.program_id(0) * 2 + second
        slot = tl.load(slots + tl.minimum(token, count - 1) * slots_stride).to(tl.int64)
        if slot >= 0:
            row = source + token * token_stride + head * head_stride
            value = tl.load(row + lanes, mask=lanes < DIM, other=0.0).to(tl.float32)
            amax = tl.maximum(tl.max(tl.abs(value), axis=0), 1e-10)
            scale = tl.div_rn(amax, amax * 0.0 + 448.0)
            code = encode_e4m3fn(tl.div_rn(value, value * 0.0 + scale))
            tl.store(codes + slot * codes_slot + head * codes_head + lanes, code.to(tl.uint8), mask=lanes < DIM)
            tl.store(scales + slot * scales_slot + head, scale)


@store_target("pair-beyond-the-end", contract=skeleton.COMPUTED, declares="foreign-read")
def pair_beyond_the_end(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Two tokens a program; of an odd count the last slot is written twice, with the row behind the last."""
    for rows, side in ((k, cache.k), (v, cache.v)):
        _, heads, dim = rows.shape
        if len(slots):
            pairs[((len(slots) + 1) // 2, heads)](
                rows, slots, side.codes, side.scales, *rows.stride()[:2], slots.stride(0), *side.codes.stride()[:2],
                side.scales.stride(0), len(slots), DIM=dim, BLOCK=triton.next_power_of_2(dim),
            )  # fmt: skip


@store_target("as-many-tokens-as-heads", contract=skeleton.COMPUTED, declares="token-lost")
def as_many_tokens_as_heads(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """The grid's sizes exchanged."""
    skeleton.store(k, v, slots, cache, tokens=min(cache.heads, len(slots)))


@triton.jit
def keep_but_last_head(
    place, code, heads, dims, codes_slot, codes_head, codes_inner, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """Store the codes of all heads but the last."""
    mask = (heads < HEADS - 1) & (dims < DIM)
    tl.store(place + heads * codes_head + dims * codes_inner, code.to(tl.uint8), mask=mask)


@store_target("last-head-masked", contract=skeleton.COMPUTED, declares="tail-mask")
def last_head_masked(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A mask of heads that is one too short."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(keep_codes=keep_but_last_head))


@triton.jit
def load_64(row, heads, dims, head_stride, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """The first 64 elements of each head."""
    mask = (heads < HEADS) & (dims < 64) & (dims < DIM)
    return tl.load(row + heads * head_stride + dims * inner_stride, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def keep_64(place, code, heads, dims, codes_slot, codes_head, codes_inner, HEADS: tl.constexpr, DIM: tl.constexpr):
    """Store the first 64 codes of each head."""
    mask = (heads < HEADS) & (dims < 64) & (dims < DIM)
    tl.store(place + heads * codes_head + dims * codes_inner, code.to(tl.uint8), mask=mask)


@store_target("block-of-64", contract=skeleton.COMPUTED, declares="tail-mask")
def block_of_64(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A block of 64 lanes, whatever the head_dim: amax and codes of the rest are left out."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(load=load_64, keep_codes=keep_64))


@triton.jit
def pick_positive(slots, slots_stride, slots_count, token, cache_slots, STEP: tl.constexpr):
    """The slot of a token, where it is above zero."""
    slot = tl.load(slots + token * slots_stride).to(tl.int64)
    return tl.where(slot > 0, slot, -1)


@store_target("slot-zero-skipped", contract=skeleton.COMPUTED, declares="token-lost")
def slot_zero_skipped(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A mask of slots that leaves out the first one."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(pick=pick_positive))


@store_target("minus-one-stored", contract=skeleton.COMPUTED, declares="negative-slot")
def minus_one_stored(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A mask of slots that lets -1 through: its row goes before the first."""
    for rows, side in ((k, cache.k), (v, cache.v)):
        count, codes, scales = cache.slots, side.codes, side.scales
        codes = codes.as_strided(codes.shape, codes.stride(), codes.storage_offset() - count * codes.stride(0))
        scales = scales.as_strided(scales.shape, scales.stride(), scales.storage_offset() - count * scales.stride(0))
        one_side(rows, torch.where(slots >= -1, slots + count, -1), codes, scales, SOUND)


@triton.jit
def load_as_the_other(row, heads, dims, head_stride, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """A row of 16-bit numbers, bf16 taken for fp16 and the other way."""
    mask = (heads < HEADS) & (dims < DIM)
    value = tl.load(row + heads * head_stride + dims * inner_stride, mask=mask, other=0.0)
    other = tl.float16 if value.dtype == tl.bfloat16 else tl.bfloat16
    return value.to(other, bitcast=True).to(tl.float32)


@store_target("other-16-bit-type", contract=skeleton.COMPUTED, declares="reinterpreted-source")
def other_16_bit_type(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A source of the other 16-bit type than the kernel was compiled for."""
    skeleton.store(k, v, slots, cache, skeleton.with_part(load=load_as_the_other))


@triton.jit
def paged(source, slots, codes, scales, token_stride, head_stride, slots_stride,
          codes_page, codes_head, codes_row, codes_inner, scales_page, scales_head, scales_row,
          PAGE: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Store one (token, head) into pages of PAGE rows."""
    token, head = tl.program_id(0), tl.program_id(1)
    slot = tl.load(slots + token * slots_stride).to(tl.int64)
    if slot >= 0:
        lanes = tl.arange(0, BLOCK)
        value = tl.load(source + token * token_stride + head * head_stride + lanes, mask=lanes < DIM, other=0.0)
        value = value.to(tl.float32)
        amax = tl.maximum(tl.max(tl.abs(value), axis=0), 1e-10)
        scale = tl.div_rn(amax, amax * 0.0 + 448.0)
        code = encode_e4m3fn(tl.div_rn(value, value * 0.0 + scale))
        page, row = slot // PAGE, slot % PAGE
        place = codes + page * codes_page + head * codes_head + row * codes_row + lanes * codes_inner
        tl.store(place, code.to(tl.uint8), mask=lanes < DIM)
        tl.store(scales + page * scales_page + head * scales_head + row * scales_row, scale)


def store_pages(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache, page: int, turned: str) -> None:
    """Store into [pages, heads, rows, dim], with pages of so many rows; `turned` tensors' as [.., dim, rows]."""
    for rows, side, name in ((k, cache.k, "k"), (v, cache.v, "v")):
        _, heads, dim = rows.shape
        codes = side.pages.stride()
        if name in turned:
            codes = (codes[0], codes[1], 1, side.pages.shape[2])
        if len(slots):
            paged[(len(slots), heads)](
                rows, slots, side.pages, side.scale_pages, *rows.stride()[:2], slots.stride(0), *codes,
                *side.scale_pages.stride(), PAGE=page, DIM=dim, BLOCK=triton.next_power_of_2(dim),
            )  # fmt: skip


@store_target("pages-of-16", contract=skeleton.COMPUTED, cache=Form("heads_pages", page=8), declares="cache-layout")
def pages_of_16(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Pages of 16 rows, where they have eight."""
    store_pages(k, v, slots, cache, 16, "")


@store_target("v-transposed", contract=skeleton.COMPUTED, cache=Form("heads_pages", page=8), declares="cache-layout")
def v_transposed(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """V with rows innermost in a page, as some attention kernels want it."""
    store_pages(k, v, slots, cache, 8, "v")
