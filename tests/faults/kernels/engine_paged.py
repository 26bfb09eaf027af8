"""Engines' kernels with one fault each: pages of rows or of heads, and block tables; one program a token."""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, ARG001, D103, INP001, N803, N806, PLR0913, PLR0917, PLR0124, SIM102
# A kernel's parameters are the compiler's, `BUG` is a constant that leaves one branch, and names say what each does.

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck import Cache, Computed, Contract, Form, store_target
from kvcheck.kernels.encode import encode_e4m3fn

DYNAMIC = Contract(Computed(eps=1e-10), duplicate_slots="undefined")


@triton.jit
def tile(
    x,
    pages,
    scales,
    token,
    page,
    off,
    xt,
    xh,
    xd,
    cp,
    co,
    ch,
    cd,
    sp,
    so,
    sh,
    H: tl.constexpr,
    D: tl.constexpr,
    BH: tl.constexpr,
    BD: tl.constexpr,
    GROUP: tl.constexpr,
    BUG: tl.constexpr,
):
    h = tl.arange(0, BH).to(tl.int64)
    d = tl.arange(0, BD).to(tl.int64)
    m = (h[:, None] < H) & (d[None, :] < D)
    rel = h[:, None] * xh + d[None, :] * xd
    val = tl.load(x + token * xt + rel, mask=m, other=0.0).to(tl.float32)
    seen = val
    if BUG == "first-of-group":
        seen = tl.load(x + token // GROUP * GROUP * xt + rel, mask=m, other=0.0).to(tl.float32)
    mag = tl.abs(seen)
    amax = tl.max(tl.where(mag == mag, mag, 0.0), axis=1)
    sptr = scales + page * sp + off * so + h * sh
    scale = tl.div_rn(tl.maximum(amax, 1e-10), tl.full([BH], 448.0, tl.float32))
    if BUG == "running-max":
        old = tl.load(sptr, mask=h < H, other=0.0)
        scale = tl.where(old > scale, old, scale)
    wide = tl.broadcast_to(scale[:, None], [BH, BD])
    code = encode_e4m3fn(tl.div_rn(val, wide)).to(tl.uint8)
    tl.store(pages + page * cp + off * co + h[:, None] * ch + d[None, :] * cd, code, mask=m)
    tl.store(sptr, scale, mask=h < H)


@triton.jit
def paged_kernel(
    k,
    v,
    slots,
    kp,
    vp,
    ks,
    vs,
    step,
    n,
    kt,
    kh,
    kd,
    vt,
    vh,
    vd,
    kcp,
    kco,
    kch,
    kcd,
    vcp,
    vco,
    vch,
    vcd,
    ksp,
    kso,
    ksh,
    vsp,
    vso,
    vsh,
    PAGE: tl.constexpr,
    H: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    BH: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    BUG: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token * step).to(tl.int64)
    if BUG == "contiguous":
        if slot >= 0:
            slot = tl.load(slots).to(tl.int64) + token
    keep = slot >= 0
    page = slot // PAGE
    off = slot % PAGE
    if BUG == "page-by-heads":
        page = slot // H
        off = slot % H
    if BUG == "last-row-of-page":
        keep = keep & (off < PAGE - 1)
    if BUG == "one-row-late":
        off = off + 1
    if keep:
        tile(k, kp, ks, token, page, off, kt, kh, kd, kcp, kco, kch, kcd, ksp, kso, ksh, H, DK, BH, BK, 4, BUG)
        tile(v, vp, vs, token, page, off, vt, vh, vd, vcp, vco, vch, vcd, vsp, vso, vsh, H, DV, BH, BV, 4, BUG)


def strides(pages, scales, hnd):
    p, s = pages.stride(), scales.stride()
    return ((p[0], p[2], p[1], p[3]), (s[0], s[2], s[1])) if hnd else (p, s)


def launch(k, v, slots, cache, bug="none", hnd=False):
    p2 = triton.next_power_of_2
    kp, ks = strides(cache.k.pages, cache.k.scale_pages, hnd)
    vp, vs = strides(cache.v.pages, cache.v.scale_pages, hnd)
    if bug == "v-by-k-pages":
        vp = (kp[0], *vp[1:])
    if bug == "nhd-in-hnd":
        H, D, V = cache.heads, cache.head_dim, cache.head_dim_v
        kp, vp = (kp[0], H * D, D, 1), (vp[0], H * V, V, 1)
    if bug == "scales-nhd-in-hnd":
        ks, vs = (ks[0], cache.heads, 1), (vs[0], cache.heads, 1)
    paged_kernel[(len(slots),)](
        k,
        v,
        slots,
        cache.k.pages,
        cache.v.pages,
        cache.k.scale_pages,
        cache.v.scale_pages,
        slots.stride(0),
        len(slots),
        *k.stride(),
        *v.stride(),
        *kp,
        *vp,
        *ks,
        *vs,
        cache.page,
        cache.heads,
        cache.head_dim,
        cache.head_dim_v,
        p2(cache.heads),
        p2(cache.head_dim),
        p2(cache.head_dim_v),
        bug,
    )


def make(name, bug, hnd=False):
    form = Form("heads_pages" if hnd else "pages", page=8)

    @store_target(name, contract=DYNAMIC, cache=form)
    def run(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        launch(k, v, slots, cache, bug, hnd)

    return run


sound = make("paged-sound", "none")
sound_hnd = make("hnd-sound", "none", hnd=True)
by_heads = make("paged-slot-by-heads", "page-by-heads")
contiguous = make("paged-contiguous-slots", "contiguous")
last_row = make("paged-last-row-skipped", "last-row-of-page")
late = make("paged-one-row-late", "one-row-late")
group = make("paged-scale-of-first-in-four", "first-of-group")
running = make("paged-running-max", "running-max")
v_by_k = make("paged-v-by-k-pages", "v-by-k-pages")
nhd = make("hnd-codes-as-nhd", "nhd-in-hnd", hnd=True)
nhd_scales = make("hnd-scales-as-nhd", "scales-nhd-in-hnd", hnd=True)


@triton.jit
def table_kernel(
    x,
    pages,
    scales,
    table,
    batch,
    positions,
    width,
    xt,
    xh,
    xd,
    cp,
    co,
    ch,
    cd,
    sp,
    so,
    sh,
    PAGE: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    BH: tl.constexpr,
    BD: tl.constexpr,
    BUG: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    request = tl.load(batch + token).to(tl.int64)
    if request >= 0:
        position = tl.load(positions + token).to(tl.int64)
        if BUG == "request-zero":
            request = request * 0
        column = position // PAGE
        if BUG == "next-request":
            column = column + 1
        page = tl.load(table + request * width + column).to(tl.int64)
        off = position % PAGE
        if BUG == "offset-by-seven":
            off = position % (PAGE - 1)
        tile(x, pages, scales, token, page, off, xt, xh, xd, cp, co, ch, cd, sp, so, sh, H, D, BH, BD, 4, "none")


def make_table(name, bug):
    @store_target(name, contract=DYNAMIC, cache=Form("pages", page=8, addressed_by="block_table"))
    def run(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        p2 = triton.next_power_of_2
        t = cache.tables
        for x, side in ((k, cache.k), (v, cache.v)):
            table_kernel[(len(slots),)](
                x,
                side.pages,
                side.scale_pages,
                t.block_table,
                t.batch_indices,
                t.positions,
                t.block_table.stride(0),
                *x.stride(),
                *side.pages.stride(),
                *side.scale_pages.stride(),
                cache.page,
                cache.heads,
                x.shape[2],
                p2(cache.heads),
                p2(x.shape[2]),
                bug,
            )

    return run


table_sound = make_table("table-sound", "none")
table_zero = make_table("table-request-zero", "request-zero")
table_off = make_table("table-offset-by-seven", "offset-by-seven")
