"""Engines' kernels with one fault each: int8, an amax over a loop of blocks, computed and static scales."""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, D103, INP001, N803, PLR0913, PLR0917, PLR0124
# A kernel's parameters are the compiler's, `BUG` is a constant that leaves one branch, and names say what each does.

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck import Cache, Computed, Contract, Form, Given, store_target

DYNAMIC = Contract(
    Computed(maximum=127.0, eps=1e-8), format="int8", nan="undefined", minimum=-128.0, duplicate_slots="undefined"
)
STATIC = Contract(Given("tensor"), format="int8", nan="undefined", minimum=-128.0, duplicate_slots="undefined")


@triton.jit
def rne(x):
    big = tl.where(x < 0, -12582912.0, 12582912.0)
    return tl.where(tl.abs(x) < 4194304.0, (x + big) - big, x)


@triton.jit
def int8_kernel(
    x,
    codes,
    scales,
    given,
    slots,
    step,
    xt,
    xh,
    xd,
    cs,
    ch,
    cd,
    ss,
    sh,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    GIVEN: tl.constexpr,
    BUG: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    slot = tl.load(slots + token * step).to(tl.int64)
    if slot < 0:
        return
    row = x + token * xt + head * xh
    out = codes + slot * cs + head * ch
    if GIVEN:
        scale = tl.load(given)
    else:
        amax = 0.0
        for start in range(0, D, BLOCK):
            d = start + tl.arange(0, BLOCK).to(tl.int64)
            part = tl.load(row + d * xd, mask=d < D, other=0.0).to(tl.float32)
            if BUG != "no-abs":
                part = tl.abs(part)
            top = tl.max(tl.where(part == part, part, 0.0), axis=0)
            amax = top if BUG == "last-block" else tl.maximum(amax, top)
        most = tl.zeros_like(amax) + (128.0 if BUG == "per-128" else 127.0)
        scale = tl.div_rn(tl.maximum(amax, 1e-8), most)
        tl.store(scales + slot * ss + head * sh, scale)
    for start in range(0, D, BLOCK):
        d = start + tl.arange(0, BLOCK).to(tl.int64)
        val = tl.load(row + d * xd, mask=d < D, other=0.0).to(tl.float32)
        q = tl.div_rn(val, tl.zeros_like(val) + scale)
        q = tl.where(q == q, q, 0.0)
        if BUG == "wrap":
            q = tl.where(tl.abs(q) < 1e9, q, 0.0)
            whole = rne(q).to(tl.int32)
        else:
            q = tl.minimum(tl.maximum(q, -128.0), 127.0)
            whole = rne(q).to(tl.int32)
        if BUG == "zero-point":
            whole = whole + 128
        tl.store(out + d * cd, whole.to(tl.int8), mask=d < D)


def make(name, bug, static=False):
    @store_target(
        name,
        contract=STATIC if static else DYNAMIC,
        cache=Form("slots", codes="int8", scales="none" if static else "sidecar"),
    )
    def run(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        for x, side in ((k, cache.k), (v, cache.v)):
            scales = side.scale if static else side.scales
            ss = (0, 0) if static else scales.stride()
            int8_kernel[(len(slots), cache.heads)](
                x,
                side.codes,
                scales,
                scales,
                slots,
                slots.stride(0),
                *x.stride(),
                *side.codes.stride(),
                *ss,
                x.shape[2],
                32,
                static,
                bug,
            )

    return run


sound = make("int8-sound", "none")
sound_static = make("int8-static-sound", "none", static=True)
no_abs = make("int8-no-abs", "no-abs")
last = make("int8-amax-of-last-block", "last-block")
per_128 = make("int8-per-128", "per-128")
point = make("int8-zero-point", "zero-point")
wrap = make("int8-static-wraps", "wrap", static=True)
