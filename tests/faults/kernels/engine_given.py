"""Engines' kernels with one fault each: static scales, a row of all heads in flat lanes; and packed caches."""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, D103, INP001, N803, PLR0913, PLR0917
# A kernel's parameters are the compiler's, `BUG` is a constant that leaves one branch, and names say what each does.

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck import Cache, Contract, Form, Given, store_target
from kvcheck.kernels.encode import encode_e4m3fn

TENSOR = Contract(Given("tensor"), duplicate_slots="undefined")
HEAD = Contract(Given("head"), duplicate_slots="undefined")
FORM = Form("slots", scales="none")


@triton.jit
def chunks(
    x,
    codes,
    scales,
    slots,
    step,
    xt,
    xh,
    xd,
    cs,
    ch,
    cd,
    per_head,
    H: tl.constexpr,
    D: tl.constexpr,
    CHUNKS: tl.constexpr,
    BLOCK: tl.constexpr,
    BUG: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token * step).to(tl.int64)
    if slot < 0:
        return
    i = tl.arange(0, BLOCK).to(tl.int64)
    m = i < CHUNKS * 16
    if BUG != "whole-vectors":
        m = i < H * D
    h = i // D
    d = i % D
    if BUG == "dense-row":
        val = tl.load(x + token * xt + i * xd, mask=m, other=0.0).to(tl.float32)
    else:
        val = tl.load(x + token * xt + h * xh + d * xd, mask=m, other=0.0).to(tl.float32)
    which = h
    if BUG == "head-of-128":
        which = tl.minimum(i // 128, H - 1)
    if BUG == "head-by-token":
        which = h * 0 + token % H
    s = tl.load(scales + which * per_head, mask=m, other=1.0)
    if BUG == "fp16":
        q = tl.div_rn(val, s).to(tl.float16).to(tl.float32)
    elif BUG == "scale-bf16":
        q = tl.div_rn(val, s.to(tl.bfloat16).to(tl.float32))
    else:
        q = tl.div_rn(val, s)
    tl.store(codes + slot * cs + h * ch + d * cd, encode_e4m3fn(q).to(tl.uint8), mask=m)


@triton.jit
def unmasked(x, codes, scale, slots, step, xt, xh, xd, cs, ch, cd, D: tl.constexpr, BLOCK: tl.constexpr):
    """One (token, head) in whole blocks: loads are masked, stores are not."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    slot = tl.load(slots + token * step).to(tl.int64)
    if slot < 0:
        return
    d = tl.arange(0, BLOCK).to(tl.int64)
    val = tl.load(x + token * xt + head * xh + d * xd, mask=d < D, other=0.0).to(tl.float32)
    q = tl.div_rn(val, tl.zeros_like(val) + tl.load(scale))
    tl.store(codes + slot * cs + head * ch + d * cd, encode_e4m3fn(q).to(tl.uint8))


def launch(x, scale, side, slots, cache, bug, strides=None):
    n = cache.heads * x.shape[2]
    chunks[(len(slots),)](
        x,
        side.codes,
        scale,
        slots,
        slots.stride(0),
        *(strides or x.stride()),
        *side.codes.stride(),
        int(scale.numel() > 1),
        cache.heads,
        x.shape[2],
        n // 16,
        triton.next_power_of_2(n),
        bug,
    )


def make(name, bug, contract=TENSOR):
    @store_target(name, contract=contract, cache=FORM)
    def run(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        launch(k, cache.k.scale, cache.k, slots, cache, bug)
        launch(v, cache.v.scale, cache.v, slots, cache, bug)

    return run


sound = make("given-sound", "none")
sound_head = make("given-head-sound", "none", HEAD)
whole = make("given-whole-vectors", "whole-vectors")
dense = make("given-dense-row", "dense-row")
of_128 = make("given-head-of-128", "head-of-128", HEAD)
by_token = make("given-head-by-token", "head-by-token", HEAD)
fp16 = make("given-through-fp16", "fp16")
bf16 = make("given-scale-in-bf16", "scale-bf16")


@store_target("given-pitch-and-scale-of-k", contract=TENSOR, cache=FORM)
def two(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Two faults: V with K's token pitch, and with K's scale."""
    launch(k, cache.k.scale, cache.k, slots, cache, "none")
    launch(v, cache.k.scale, cache.v, slots, cache, "none", (k.stride(0), *v.stride()[1:]))


@store_target("given-unmasked-stores", contract=TENSOR, cache=FORM)
def stray(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    for x, side in ((k, cache.k), (v, cache.v)):
        unmasked[(len(slots), cache.heads)](
            x,
            side.codes,
            side.scale,
            slots,
            slots.stride(0),
            *x.stride(),
            *side.codes.stride(),
            x.shape[2],
            triton.next_power_of_2(x.shape[2]),
        )


PACKED = Form("packed", page=8, scales="none")


@triton.jit
def packed_kernel(
    x,
    cache,
    scale,
    slots,
    step,
    xt,
    xh,
    xd,
    cp,
    ch,
    co,
    start,
    gap,
    PAGE: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    slot = tl.load(slots + token * step).to(tl.int64)
    if slot < 0:
        return
    d = tl.arange(0, BLOCK).to(tl.int64)
    val = tl.load(x + token * xt + head * xh + d * xd, mask=d < D, other=0.0).to(tl.float32)
    q = tl.div_rn(val, tl.zeros_like(val) + tl.load(scale))
    place = cache + slot // PAGE * cp + head * ch + slot % PAGE * co + start
    tl.store(place + d * gap, encode_e4m3fn(q).to(tl.uint8), mask=d < D)


def make_packed(name, interleaved=False, v_after_all=False):
    @store_target(name, contract=TENSOR, cache=PACKED)
    def run(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        fused = cache.fused
        page, head, off, _ = fused.stride()
        for i, (x, side) in enumerate(((k, cache.k), (v, cache.v))):
            start, gap, o, h = i * cache.head_dim, 1, off, head
            if interleaved:
                start, gap = i, 2
            if v_after_all:  # K of the whole page, then V of the whole page
                o = x.shape[2]
                h = cache.page * o
                start = i * cache.heads * cache.page * cache.head_dim
            packed_kernel[(len(slots), cache.heads)](
                x,
                fused,
                side.scale,
                slots,
                slots.stride(0),
                *x.stride(),
                page,
                h,
                o,
                start,
                gap,
                cache.page,
                x.shape[2],
                triton.next_power_of_2(x.shape[2]),
            )

    return run


packed_sound = make_packed("packed-sound")
packed_inter = make_packed("packed-interleaved", interleaved=True)
packed_after = make_packed("packed-k-then-v", v_after_all=True)
