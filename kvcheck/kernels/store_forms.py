"""kvcheck's own store over every form of cache and every kind of scale: one kernel, a target for each.

Codes and scales are addressed by strides of (page, row in the page, head, element or block), so that one kernel serves
rows, pages, head-major pages, packed and fused tensors and inline scales. All else is as in `store`: it divides with
`tl.div_rn` alone, encodes in integers, and its bytes are the same on every machine.
"""

from __future__ import annotations

from typing import Literal

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, Side, store_target
from kvcheck.contract import Computed, Contract, Form, Given
from kvcheck.errors import Refused
from kvcheck.kernels.encode import encode_e4m3fn
from kvcheck.kernels.store import CONTRACT, LARGEST_TILE, SLOTS_A_STEP, is_named_later

#: Elements that share a scale in `store-blocks`, and the least scale there: fp16's smallest normal number.
BLOCK = 32
LEAST_FP16 = 2.0**-14

Apply = Literal["computed", "blocks", "divisor", "reciprocal", "multiplier"]
#: What the kernel does with a scale, as it is told; `computed` and `blocks` find theirs themselves.
APPLY: dict[Apply, int] = {"computed": 0, "blocks": 1, "divisor": 2, "reciprocal": 3, "multiplier": 4}


@triton.jit
def scale_of(value, SIZE: tl.constexpr, BLOCKS: tl.constexpr):
    """The scale of each row of values, in fp32: `amax / 448`, at least what the contract says."""
    magnitude = tl.abs(value)
    # NaN is no part of the maximum; comparing it with itself is how every arch agrees on that.
    amax = tl.max(tl.where(magnitude == magnitude, magnitude, 0.0), axis=1)
    top = tl.full([SIZE], 448.0, tl.float32)
    if BLOCKS:
        least = tl.full([SIZE], 0.00006103515625, tl.float32)  # LEAST_FP16
        scale = tl.maximum(tl.div_rn(amax, top), least).to(tl.float16).to(tl.float32)
    else:
        scale = tl.div_rn(tl.maximum(amax, 1e-10), top)
    return scale


@triton.jit
def scaled_rows(value, scale, ROWS: tl.constexpr, COLUMNS: tl.constexpr, APPLIED: tl.constexpr):
    """Rows of values with a scale each, as APPLIED says; one rounding a step."""
    wide = tl.broadcast_to(scale[:, None], [ROWS, COLUMNS])
    if APPLIED == 3:
        scaled = value * tl.div_rn(tl.full([ROWS, COLUMNS], 1.0, tl.float32), wide)
    elif APPLIED == 4:
        scaled = value * wide
    else:
        scaled = tl.div_rn(value, wide)
    return scaled


@triton.jit
def store_row(
    source,
    codes,
    scales,
    token,
    page,
    row,
    source_token,
    source_head,
    source_inner,
    codes_page,
    codes_row,
    codes_head,
    codes_inner,
    scales_page,
    scales_row,
    scales_head,
    scales_inner,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    GROUP: tl.constexpr,
    APPLIED: tl.constexpr,
):
    """Store one token of one tensor at (page, row). Strides are in elements; addresses are 64-bit.

    The tile is `[heads * groups, elements of a group]`: a group is what shares a scale, a head or a block of one.
    """
    GROUPS: tl.constexpr = BLOCK_DIM // GROUP
    TALL: tl.constexpr = BLOCK_HEADS * GROUPS
    tall = tl.arange(0, TALL).to(tl.int64)
    head = tall // GROUPS
    group = tall % GROUPS
    dim = (group * GROUP)[:, None] + tl.arange(0, GROUP).to(tl.int64)[None, :]
    mask = (head < HEADS)[:, None] & (dim < DIM)
    at = source + token * source_token + head[:, None] * source_head + dim * source_inner
    value = tl.load(at, mask=mask, other=0.0).to(tl.float32)
    if APPLIED < 2:
        scale = scale_of(value, TALL, APPLIED == 1)
        stored = (head < HEADS) & (group * GROUP < DIM)
        where = scales + page * scales_page + row * scales_row + head * scales_head + group * scales_inner
        tl.store(where, scale.to(scales.dtype.element_ty), mask=stored)
    else:
        scale = tl.load(scales + head * scales_head, mask=head < HEADS, other=1.0).to(tl.float32)
    code = encode_e4m3fn(scaled_rows(value, scale, TALL, GROUP, APPLIED)).to(tl.uint8)
    target = codes + page * codes_page + row * codes_row + head[:, None] * codes_head + dim * codes_inner
    tl.store(target, code, mask=mask)


@triton.jit
def store_forms_kernel(
    k,
    v,
    slots,
    k_codes,
    v_codes,
    k_scales,
    v_scales,
    slots_stride,
    slots_count,
    page_size,
    k_token,
    k_head,
    k_inner,
    v_token,
    v_head,
    v_inner,
    kc_page,
    kc_row,
    kc_head,
    kc_inner,
    vc_page,
    vc_row,
    vc_head,
    vc_inner,
    ks_page,
    ks_row,
    ks_head,
    ks_inner,
    vs_page,
    vs_row,
    vs_head,
    vs_inner,
    HEADS: tl.constexpr,
    DIM_K: tl.constexpr,
    DIM_V: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    BLOCK_DIM_K: tl.constexpr,
    BLOCK_DIM_V: tl.constexpr,
    GROUP_K: tl.constexpr,
    GROUP_V: tl.constexpr,
    STEP: tl.constexpr,
    APPLIED: tl.constexpr,
):
    """Store one token of K and of V; a negative slot, and a slot that a later token has too, stores nothing."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token * slots_stride).to(tl.int64)
    slot = tl.where(is_named_later(slots, slots_stride, slots_count, token, slot, STEP), -1, slot)
    if slot >= 0:
        page = slot // page_size
        row = slot % page_size
        store_row(
            k, k_codes, k_scales, token, page, row, k_token, k_head, k_inner, kc_page, kc_row, kc_head, kc_inner,
            ks_page, ks_row, ks_head, ks_inner, HEADS, DIM_K, BLOCK_HEADS, BLOCK_DIM_K, GROUP_K, APPLIED,
        )  # fmt: skip
        store_row(
            v, v_codes, v_scales, token, page, row, v_token, v_head, v_inner, vc_page, vc_row, vc_head, vc_inner,
            vs_page, vs_row, vs_head, vs_inner, HEADS, DIM_V, BLOCK_HEADS, BLOCK_DIM_V, GROUP_V, APPLIED,
        )  # fmt: skip


def launch(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache, form: Form, apply: Apply) -> None:
    """Launch the store. `k`, `v` are `[rows, heads, head_dim]`, `slots` is `[tokens]`; rows beyond stay unstored.

    Raises Refused for tiles that Triton does not allow.
    """
    tokens, heads = len(slots), k.shape[1]
    if tokens == 0:
        return
    dims = [triton.next_power_of_2(tensor.shape[2]) for tensor in (k, v)]
    groups = [min(BLOCK, dim) if apply == "blocks" else dim for dim in dims]
    if triton.next_power_of_2(heads) * max(dims) > LARGEST_TILE:
        raise Refused(f"{heads} heads of {max(dims)}; accepted: tiles to {LARGEST_TILE}")
    scales = [_scales(side, form, apply) for side in (cache.k, cache.v)]
    store_forms_kernel[(tokens,)](
        k, v, slots, cache.k.pages, cache.v.pages, scales[0][0], scales[1][0], slots.stride(0), tokens,
        cache.page, *k.stride(), *v.stride(), *_strides(cache.k.pages, form), *_strides(cache.v.pages, form),
        *scales[0][1], *scales[1][1],
        HEADS=heads, DIM_K=k.shape[2], DIM_V=v.shape[2], BLOCK_HEADS=triton.next_power_of_2(heads),
        BLOCK_DIM_K=dims[0], BLOCK_DIM_V=dims[1], GROUP_K=groups[0], GROUP_V=groups[1], STEP=SLOTS_A_STEP,
        APPLIED=APPLY[apply],
    )  # fmt: skip


Strides = tuple[int, ...]


def _strides(tensor: torch.Tensor, form: Form) -> Strides:
    """The strides of an engine-shaped tensor as (page, row, head, then the rest)."""
    given = tensor.stride()
    if form.kind in ("slots", "fused"):
        return (given[0], 0, *given[1:])
    if form.kind in ("heads_pages", "packed"):
        return (given[0], given[2], given[1], *given[3:])
    return given


def _scales(side: Side, form: Form, apply: Apply) -> tuple[torch.Tensor, Strides]:
    """The tensor of scales, and its strides by (page, row, head, block)."""
    if apply in ("computed", "blocks"):
        strides = _strides(side.scale_pages, form)
        return side.scale_pages, (*strides, 0)[:4]
    return side.scale, (0, 0, side.scale.stride(0) if len(side.scale) > 1 else 0, 0)


GIVEN = Form("pages", page=16, scales="none")


@store_target("store-given", contract=Contract(scale=Given("tensor")), cache=GIVEN)
def store_given(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """One given scale a tensor, divided by."""
    launch(k, v, slots, cache, GIVEN, "divisor")


@store_target(
    "store-given-reciprocal", contract=Contract(scale=Given("tensor"), apply="multiply_reciprocal"), cache=GIVEN
)
def store_given_reciprocal(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """One given scale a tensor; its reciprocal, rounded, is multiplied with."""
    launch(k, v, slots, cache, GIVEN, "reciprocal")


@store_target("store-given-multiplier", contract=Contract(scale=Given("tensor", direction="multiplier")), cache=GIVEN)
def store_given_multiplier(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """One given scale a tensor, multiplied with."""
    launch(k, v, slots, cache, GIVEN, "multiplier")


GIVEN_HEAD = Form("heads_pages", page=16, scales="none")


@store_target("store-given-head", contract=Contract(scale=Given("head")), cache=GIVEN_HEAD)
def store_given_head(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """One given scale a head, divided by."""
    launch(k, v, slots, cache, GIVEN_HEAD, "divisor")


PAGES = Form("pages", page=16)


@store_target("store-pages", contract=CONTRACT, cache=PAGES)
def store_pages(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Pages of rows, computed scales beside them."""
    launch(k, v, slots, cache, PAGES, "computed")


HEADS_PAGES = Form("heads_pages", page=16)


@store_target("store-heads-pages", contract=CONTRACT, cache=HEADS_PAGES)
def store_heads_pages(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Pages whose heads come before their rows."""
    launch(k, v, slots, cache, HEADS_PAGES, "computed")


PACKED = Form("packed", page=16)


@store_target("store-packed", contract=CONTRACT, cache=PACKED)
def store_packed(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """K and V side by side in each row of head-major pages."""
    launch(k, v, slots, cache, PACKED, "computed")


FUSED = Form("fused")


@store_target("store-fused", contract=CONTRACT, cache=FUSED)
def store_fused(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """K's heads, then V's, in one row."""
    launch(k, v, slots, cache, FUSED, "computed")


INLINE = Form("pages", page=16, scales="inline")


@store_target("store-inline", contract=CONTRACT, cache=INLINE)
def store_inline(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Each scale behind its head's codes."""
    launch(k, v, slots, cache, INLINE, "computed")


SLOTS = Form("slots")


@store_target(
    "store-blocks",
    contract=Contract(scale=Computed(f"block:{BLOCK}", eps=LEAST_FP16, eps_on="scale", dtype="fp16")),
    cache=SLOTS,
)
def store_blocks(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """One fp16 scale for every 32 elements of a head."""
    launch(k, v, slots, cache, SLOTS, "blocks")
