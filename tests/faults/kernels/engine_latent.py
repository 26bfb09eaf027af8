"""Engines' kernels with one fault each: latent rows of one head, a scale for each 64 elements."""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, D103, INP001, N803, PLR0913, PLR0917, PLR0124
# A kernel's parameters are the compiler's, `BUG` is a constant that leaves one branch, and names say what each does.

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck import Accepts, Cache, Computed, Contract, store_target
from kvcheck.kernels.encode import encode_e4m3fn

BLOCKS = Contract(Computed("block:64", eps=1e-12), duplicate_slots="undefined")
ROWS = Accepts(head_counts=(1,), head_dims=(64, 128, 192, 256, 576))


@triton.jit
def latent(x, codes, scales, slots, step, xt, xd, cs, cd, ss, sb, n_slots, D: tl.constexpr, BUG: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token * step).to(tl.int64)
    if slot < 0:
        return
    lane = tl.arange(0, 64).to(tl.int64)
    scale = tl.full([1], 1.0, tl.float32)
    for b in range(D // 64):
        val = tl.load(x + token * xt + (b * 64 + lane) * xd).to(tl.float32)
        mag = tl.abs(val)
        if BUG == "pairs":
            nxt = tl.abs(
                tl.load(x + token * xt + ((b ^ 1) * 64 + lane) * xd, mask=(b ^ 1) * 64 + lane < D, other=0.0).to(
                    tl.float32
                )
            )
            mag = tl.maximum(tl.where(mag == mag, mag, 0.0), tl.where(nxt == nxt, nxt, 0.0))
        amax = tl.max(tl.where(mag == mag, mag, 0.0), axis=0, keep_dims=True)
        if BUG == "rope-by-latent":
            if (b < D // 64 - 1) | (b == 0):
                scale = tl.div_rn(tl.maximum(amax, 1e-12), tl.full([1], 448.0, tl.float32))
        else:
            scale = tl.div_rn(tl.maximum(amax, 1e-12), tl.full([1], 448.0, tl.float32))
        q = tl.div_rn(val, tl.broadcast_to(scale, [64]))
        to = b * 64
        if BUG == "rope-first":
            to = (b + 1) % (D // 64) * 64
        tl.store(codes + slot * cs + (to + lane) * cd, encode_e4m3fn(q).to(tl.uint8))
        place = scales + slot * ss + b * sb
        if BUG == "columns":
            place = scales + b * n_slots + slot
        if BUG == "half-scales":
            place = scales + slot * ss + b // 2 * sb
        tl.store(place + tl.arange(0, 1), scale)


def make(name, bug):
    @store_target(name, contract=BLOCKS, accepts=ROWS)
    def run(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        for x, side in ((k, cache.k), (v, cache.v)):
            c, s = side.codes.stride(), side.scales.stride()
            latent[(len(slots),)](
                x,
                side.codes,
                side.scales,
                slots,
                slots.stride(0),
                x.stride(0),
                x.stride(2),
                c[0],
                c[2],
                s[0],
                s[2],
                cache.slots,
                x.shape[2],
                bug,
            )

    return run


sound = make("latent-sound", "none")
rope_scale = make("latent-rope-by-latent-scale", "rope-by-latent")
rope_first = make("latent-rope-first", "rope-first")
pairs = make("latent-amax-of-pairs", "pairs")
columns = make("latent-scales-by-columns", "columns")
half = make("latent-scales-of-128", "half-scales")
