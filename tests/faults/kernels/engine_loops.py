"""Engines' kernels with one fault each: a loop over heads in one program a token; E8M0, duplicates, inline scales."""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, ARG001, C901, D103, INP001, N803, N806, PLR0912, PLR0913, PLR0917, PLR0124, SIM102
# A kernel's parameters are the compiler's, `BUG` is a constant that leaves one branch, and names say what each does.

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck import Cache, Computed, Contract, Form, store_target
from kvcheck.kernels.encode import encode_e4m3fn

DYNAMIC = Contract(Computed(eps=1e-10))
E8M0 = Contract(Computed(eps=1e-10, dtype="ue8m0"), apply="power_of_two")


@triton.jit
def later(slots, step, n, token, slot):
    found = 0
    for i in range(token + 1, n):
        if tl.load(slots + i * step).to(tl.int64) == slot:
            found = 1
    return found


@triton.jit
def earlier(slots, step, token, slot):
    found = 0
    for i in range(token):
        if tl.load(slots + i * step).to(tl.int64) == slot:
            found = 1
    return found


@triton.jit
def loop_kernel(
    x,
    codes,
    scales,
    slots,
    step,
    n,
    xt,
    xh,
    xd,
    cs,
    ch,
    cd,
    ss,
    sh,
    H: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    POWER: tl.constexpr,
    BUG: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token * step).to(tl.int64)
    if slot < 0:
        return
    if BUG == "last-token":
        if token >= n // 2 * 2:
            return
    d = tl.arange(0, BLOCK).to(tl.int64)
    m = d < D
    src = x + token * xt
    dst = codes + slot * cs
    sc = scales + slot * ss
    keep_codes = later(slots, step, n, token, slot) == 0
    keep_scale = keep_codes
    if BUG == "torn":
        keep_codes = earlier(slots, step, token, slot) == 0
    heads: tl.constexpr = H // 2 * 2 if BUG == "pairs-of-heads" else H
    previous = tl.full([1], 1.0, tl.float32)
    for _ in range(heads):
        if BUG == "advance-first":
            src += xh
        val = tl.load(src + d * xd, mask=m, other=0.0).to(tl.float32)
        mag = tl.abs(val)
        amax = tl.max(tl.where(mag == mag, mag, 0.0), axis=0, keep_dims=True)
        scale = tl.div_rn(tl.maximum(amax, 1e-10), tl.full([1], 448.0, tl.float32))
        if POWER:
            byte = tl.minimum(tl.maximum((scale.to(tl.int32, bitcast=True) + 0x7FFFFF) >> 23, 1), 254)
            scale = (byte << 23).to(tl.float32, bitcast=True)
        q = tl.div_rn(val, tl.broadcast_to(scale, [BLOCK]))
        code = encode_e4m3fn(q).to(tl.uint8)
        one = tl.arange(0, 1)
        if keep_codes:
            tl.store(dst + d * cd, code, mask=m)
        if keep_scale:
            if POWER:
                if BUG == "bias-128":
                    byte = byte + 1
                tl.store(sc + one, byte.to(tl.uint8))
            elif BUG == "previous-head":
                tl.store(sc + one, previous)
            else:
                tl.store(sc + one, scale)
        previous = scale
        if BUG != "advance-first":
            src += xh
        dst += ch
        sc += sh


def launch(k, v, slots, cache, bug, power=False):
    for x, side in ((k, cache.k), (v, cache.v)):
        loop_kernel[(len(slots),)](
            x,
            side.codes,
            side.scales,
            slots,
            slots.stride(0),
            len(slots),
            *x.stride(),
            *side.codes.stride(),
            *side.scales.stride(),
            cache.heads,
            x.shape[2],
            triton.next_power_of_2(x.shape[2]),
            power,
            bug,
        )


def make(name, bug, power=False):
    @store_target(name, contract=E8M0 if power else DYNAMIC)
    def run(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        launch(k, v, slots, cache, bug, power)

    return run


sound = make("loop-sound", "none")
sound_power = make("loop-e8m0-sound", "none", power=True)
advance = make("loop-advances-first", "advance-first")
pairs = make("loop-pairs-of-heads", "pairs-of-heads")
previous = make("loop-scale-of-previous-head", "previous-head")
torn = make("loop-torn-duplicates", "torn")
bias = make("loop-bias-of-128", "bias-128", power=True)
last = make("loop-odd-token-dropped", "last-token")


@triton.jit
def inline_kernel(
    x,
    rows,
    slots,
    step,
    xt,
    xh,
    xd,
    rs,
    rh,
    H: tl.constexpr,
    D: tl.constexpr,
    AT: tl.constexpr,
    BLOCK: tl.constexpr,
    BUG: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    slot = tl.load(slots + token * step).to(tl.int64)
    if slot < 0:
        return
    d = tl.arange(0, BLOCK).to(tl.int64)
    val = tl.load(x + token * xt + head * xh + d * xd, mask=d < D, other=0.0).to(tl.float32)
    mag = tl.abs(val)
    amax = tl.max(tl.where(mag == mag, mag, 0.0), axis=0, keep_dims=True)
    scale = tl.div_rn(tl.maximum(amax, 1e-10), tl.full([1], 448.0, tl.float32))
    code = encode_e4m3fn(tl.div_rn(val, tl.broadcast_to(scale, [BLOCK]))).to(tl.uint8)
    row = rows + slot * rs + head * rh
    if BUG == "scale-first":
        tl.store(row + 4 + d, code, mask=d < D)
    else:
        tl.store(row + d, code, mask=d < D)
    bits = scale.to(tl.int32, bitcast=True)
    at = 0 if BUG == "scale-first" else AT
    for b in range(4):
        byte = bits >> 8 * (3 - b if BUG == "big-endian" else b)
        tl.store(row + at + b + tl.arange(0, 1), (byte & 255).to(tl.uint8))


def make_inline(name, bug, aligned=False):
    @store_target(
        name,
        contract=Contract(Computed(eps=1e-10), duplicate_slots="undefined"),
        cache=Form("slots", scales="inline", inline_pad=12),
    )
    def run(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        for x, side in ((k, cache.k), (v, cache.v)):
            D = x.shape[2]
            rows = side.rows
            at = D + 8 if aligned else D
            inline_kernel[(len(slots), cache.heads)](
                x,
                rows,
                slots,
                slots.stride(0),
                *x.stride(),
                *rows.stride()[:2],
                cache.heads,
                D,
                at,
                triton.next_power_of_2(D),
                bug,
            )

    return run


inline_sound = make_inline("inline-sound", "none")
inline_first = make_inline("inline-scale-first", "scale-first")
inline_big = make_inline("inline-big-endian", "big-endian")
inline_late = make_inline("inline-scale-eight-late", "none", aligned=True)
