"""Engines' kernels with one fault each: one program a (token, head) of a flat grid, K and V in the same program."""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, ARG001, D103, INP001, N803, PLR0913, PLR0917, PLR0124
# A kernel's parameters are the compiler's, `BUG` is a constant that leaves one branch, and names say what each does.

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck import Cache, Computed, Contract, store_target
from kvcheck.kernels.encode import encode_e4m3fn

DYNAMIC = Contract(Computed(eps=1e-10), duplicate_slots="undefined")


@triton.jit
def div(a, b):
    return tl.div_rn(a, tl.zeros_like(a) + b)


@triton.jit
def row_store(
    x,
    codes,
    scales,
    token,
    head,
    slot,
    xt,
    xh,
    xd,
    cs,
    ch,
    cd,
    ss,
    sh,
    n_slots,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    BUG: tl.constexpr,
):
    d = tl.arange(0, BLOCK).to(tl.int64)
    m = d < D
    src = x + token * xt + head * xh
    if BUG == "pun":
        val = tl.load(src.to(tl.pointer_type(tl.bfloat16)) + d * xd, mask=m, other=0.0).to(tl.float32)
    else:
        val = tl.load(src + d * xd, mask=m, other=0.0).to(tl.float32)
    mag = tl.abs(val)
    amax = tl.max(tl.where(mag == mag, mag, 0.0), axis=0)
    scale = div(tl.maximum(amax, 1e-10), 448.0)
    if BUG == "clamp-first":
        val = tl.where(val > 448.0, 448.0, tl.where(val < -448.0, -448.0, val))
    if BUG == "bf16-reciprocal":
        inv = div(scale * 0 + 1.0, scale).to(tl.bfloat16).to(tl.float32)
        q = val * inv
    else:
        q = div(val, scale)
    if BUG == "through-e5m2":
        q = tl.where(q > 448.0, 448.0, tl.where(q < -448.0, -448.0, q))
        q = q.to(tl.float8e5).to(tl.float32)
    tl.store(codes + slot * cs + head * ch + d * cd, encode_e4m3fn(q).to(tl.uint8), mask=m)
    if BUG == "scales-transposed":
        tl.store(scales + head * n_slots + slot, scale)
    elif BUG == "scale-at-token":
        tl.store(scales + token * ss + head * sh, scale)
    else:
        tl.store(scales + slot * ss + head * sh, scale)


@triton.jit
def flat_kernel(
    k,
    v,
    slots,
    kc,
    vc,
    ks,
    vs,
    T,
    H,
    step,
    n_slots,
    kt,
    kh,
    kd,
    vt,
    vh,
    vd,
    kcs,
    kch,
    kcd,
    vcs,
    vch,
    vcd,
    kss,
    ksh,
    vss,
    vsh,
    DK: tl.constexpr,
    DV: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    BUG: tl.constexpr,
):
    pid = tl.program_id(0).to(tl.int64)
    token = pid // H
    head = pid % H
    slot = tl.load(slots + token * step).to(tl.int64)
    if slot >= 0:
        if BUG == "previous-token":
            token = tl.maximum(token - 1, 0)
        row_store(k, kc, ks, token, head, slot, kt, kh, kd, kcs, kch, kcd, kss, ksh, n_slots, DK, BK, BUG)
        if BUG == "k-into-v":
            row_store(k, vc, vs, token, head, slot, kt, kh, kd, vcs, vch, vcd, vss, vsh, n_slots, DV, BV, BUG)
        else:
            row_store(v, vc, vs, token, head, slot, vt, vh, vd, vcs, vch, vcd, vss, vsh, n_slots, DV, BV, BUG)


def launch(k, v, slots, cache, bug):
    p2 = triton.next_power_of_2
    flat_kernel[(len(slots) * cache.heads,)](
        k,
        v,
        slots,
        cache.k.codes,
        cache.v.codes,
        cache.k.scales,
        cache.v.scales,
        len(slots),
        cache.heads,
        slots.stride(0),
        cache.slots,
        *k.stride(),
        *v.stride(),
        *cache.k.codes.stride(),
        *cache.v.codes.stride(),
        *cache.k.scales.stride(),
        *cache.v.scales.stride(),
        cache.head_dim,
        cache.head_dim_v,
        p2(cache.head_dim),
        p2(cache.head_dim_v),
        bug,
    )


def make(name, bug):
    @store_target(name, contract=DYNAMIC)
    def run(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        launch(k, v, slots, cache, bug)

    return run


sound = make("flat-sound", "none")
scales_transposed = make("flat-scales-transposed", "scales-transposed")
scale_at_token = make("flat-scale-at-token", "scale-at-token")
previous = make("flat-previous-token", "previous-token")
e5m2 = make("flat-through-e5m2", "through-e5m2")
clamp = make("flat-clamp-first", "clamp-first")
recip = make("flat-bf16-reciprocal", "bf16-reciprocal")
pun = make("flat-fp32-as-bf16", "pun")
kv = make("flat-k-into-v", "k-into-v")
