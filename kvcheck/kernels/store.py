"""kvcheck's own store: K and V rows to e4m3 codes with one scale a token and head, one program a token.

Every tensor has strides of its own. It divides with `tl.div_rn` alone and encodes in integers, so that its bytes are
the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Computed, Contract, Form
from kvcheck.errors import Refused
from kvcheck.kernels.encode import encode_e4m3fn

CONTRACT = Contract(scale=Computed("token_head", maximum=448.0, eps=1e-10, derive="divide"), apply="divide")

#: Slots that a program compares with its own at a time.
SLOTS_A_STEP = 64

#: Elements of the largest tile that Triton allows a program.
LARGEST_TILE = 1 << 20


@triton.jit
def store_side(
    source,
    codes,
    scales,
    token,
    slot,
    source_token,
    source_head,
    source_inner,
    codes_slot,
    codes_head,
    codes_inner,
    scales_slot,
    scales_head,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    NATIVE_CAST: tl.constexpr,
):
    """Store one token of one tensor. Strides are in elements; addresses are 64-bit.

    `NATIVE_CAST` leaves rounding to Triton's own cast, and so to the arch's compiler.
    """
    heads = tl.arange(0, BLOCK_HEADS).to(tl.int64)[:, None]
    dims = tl.arange(0, BLOCK_DIM).to(tl.int64)[None, :]
    mask = (heads < HEADS) & (dims < DIM)
    row = source + token * source_token
    value = tl.load(row + heads * source_head + dims * source_inner, mask=mask, other=0.0).to(tl.float32)
    magnitude = tl.abs(value)
    # NaN is no part of the maximum; comparing it with itself is how every arch agrees on that.
    amax = tl.max(tl.where(magnitude == magnitude, magnitude, 0.0), axis=1)
    scale = tl.div_rn(tl.maximum(amax, 1e-10), tl.full([BLOCK_HEADS], 448.0, tl.float32))
    wide = tl.broadcast_to(scale[:, None], [BLOCK_HEADS, BLOCK_DIM])
    scaled = tl.div_rn(value, wide)
    if NATIVE_CAST:  # noqa: SIM108 - only one side may be compiled: fp8 does not exist for every arch
        code = scaled.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
    else:
        code = encode_e4m3fn(scaled).to(tl.uint8)
    target = codes + slot * codes_slot
    tl.store(target + heads * codes_head + dims * codes_inner, code, mask=mask)
    head = tl.arange(0, BLOCK_HEADS).to(tl.int64)
    tl.store(scales + slot * scales_slot + head * scales_head, scale, mask=head < HEADS)


@triton.jit
def is_named_later(slots, slots_stride, slots_count, token, slot, STEP: tl.constexpr):
    """Whether a later token has this slot too."""
    named = 0
    for start in range(token + 1, slots_count, STEP):
        later = start + tl.arange(0, STEP).to(tl.int64)
        found = tl.load(slots + later * slots_stride, mask=later < slots_count, other=-1).to(tl.int64)
        named = tl.maximum(named, tl.max((found == slot).to(tl.int32), axis=0))
    return named > 0


@triton.jit
def store_kernel(
    k,
    v,
    slots,
    k_codes,
    v_codes,
    k_scales,
    v_scales,
    slots_stride,
    slots_count,
    k_token,
    k_head,
    k_inner,
    v_token,
    v_head,
    v_inner,
    kc_slot,
    kc_head,
    kc_inner,
    vc_slot,
    vc_head,
    vc_inner,
    ks_slot,
    ks_head,
    vs_slot,
    vs_head,
    HEADS: tl.constexpr,
    DIM_K: tl.constexpr,
    DIM_V: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    BLOCK_DIM_K: tl.constexpr,
    BLOCK_DIM_V: tl.constexpr,
    STEP: tl.constexpr,
    NATIVE_CAST: tl.constexpr,
):
    """Store one token of K and of V at its slot; a negative slot stores nothing.

    Of tokens that share a slot only the last is stored: two programs that write one row at a time may leave parts of
    both, or the codes of one with the scale of the other.
    """
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token * slots_stride).to(tl.int64)
    slot = tl.where(is_named_later(slots, slots_stride, slots_count, token, slot, STEP), -1, slot)
    if slot >= 0:
        store_side(
            k, k_codes, k_scales, token, slot, k_token, k_head, k_inner, kc_slot, kc_head, kc_inner, ks_slot, ks_head,
            HEADS, DIM_K, BLOCK_HEADS, BLOCK_DIM_K, NATIVE_CAST,
        )  # fmt: skip
        store_side(
            v, v_codes, v_scales, token, slot, v_token, v_head, v_inner, vc_slot, vc_head, vc_inner, vs_slot, vs_head,
            HEADS, DIM_V, BLOCK_HEADS, BLOCK_DIM_V, NATIVE_CAST,
        )  # fmt: skip


def launch(
    k: torch.Tensor,
    v: torch.Tensor,
    slots: torch.Tensor,
    cache: Cache,
    *,
    k_strides: Sequence[int] | None = None,
    v_strides: Sequence[int] | None = None,
    native_cast: bool = False,
) -> None:
    """Launch the store. `k`, `v` are `[rows, heads, head_dim]`, `slots` is `[tokens]`; rows beyond stay unstored.

    The strides are the tensors' own; specimens pass others. `native_cast` encodes with Triton's own cast. Raises
    Refused for what the kernel cannot store.
    """
    check(k, v, slots, cache)
    tokens = len(slots)
    _, heads, dim_k = k.shape
    dim_v = v.shape[2]
    if tokens == 0:
        return
    codes_k, codes_v, scales_k, scales_v = cache.k.codes, cache.v.codes, cache.k.scales, cache.v.scales
    store_kernel[(tokens,)](
        k, v, slots, codes_k, codes_v, scales_k, scales_v, slots.stride(0), tokens,
        *(k.stride() if k_strides is None else k_strides), *(v.stride() if v_strides is None else v_strides),
        *codes_k.stride(), *codes_v.stride(), *scales_k.stride(), *scales_v.stride(),
        HEADS=heads, DIM_K=dim_k, DIM_V=dim_v, BLOCK_HEADS=triton.next_power_of_2(heads),
        BLOCK_DIM_K=triton.next_power_of_2(dim_k), BLOCK_DIM_V=triton.next_power_of_2(dim_v), STEP=SLOTS_A_STEP,
        NATIVE_CAST=native_cast,
    )  # fmt: skip


def check(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Refuse what the kernel cannot store, naming the tensor, what it has, and what is accepted."""
    for name, tensor in (("k", k), ("v", v)):
        if tensor.dim() != 3:
            raise Refused(f"{name} has shape {tuple(tensor.shape)}; accepted: [tokens, heads, head_dim]")
        if tensor.dtype not in (torch.bfloat16, torch.float16, torch.float32):
            raise Refused(f"{name} has dtype {tensor.dtype}; accepted: bfloat16, float16, float32")
        tile = triton.next_power_of_2(tensor.shape[1]) * triton.next_power_of_2(tensor.shape[2])
        if tile > LARGEST_TILE:
            raise Refused(f"{name} has {tensor.shape[1]} heads of {tensor.shape[2]}; accepted: tiles to {LARGEST_TILE}")
    if k.shape[:2] != v.shape[:2]:
        raise Refused(f"k is {tuple(k.shape)} and v {tuple(v.shape)}; accepted: equal tokens and heads")
    if slots.dtype not in (torch.int32, torch.int64):
        raise Refused(f"slots has dtype {slots.dtype}; accepted: int32, int64")
    if slots.dim() != 1 or len(slots) > len(k):
        raise Refused(f"slots has shape {tuple(slots.shape)}; accepted: one a token, {len(k)} or fewer")
    for name, rows, source in (("k", cache.k, k), ("v", cache.v, v)):
        _check_rows(f"cache.{name}.codes", rows.codes, torch.uint8, tuple(source.shape[1:]))
        _check_rows(f"cache.{name}.scales", rows.scales, torch.float32, (source.shape[1],))


def _check_rows(name: str, rows: torch.Tensor, dtype: torch.dtype, row: tuple[int, ...]) -> None:
    """Refuse cache rows of another type or size, or rows that lie on each other."""
    if rows.dtype != dtype:
        raise Refused(f"{name} has dtype {rows.dtype}; accepted: {dtype}")
    if tuple(rows.shape[1:]) != row:
        raise Refused(f"{name} has rows of {tuple(rows.shape[1:])}; accepted: {row}")
    sized = sorted((stride, size) for stride, size in zip(rows.stride(), rows.shape, strict=True) if size > 1)
    reach = 0
    for stride, size in sized:
        if stride <= reach:
            raise Refused(
                f"{name} has strides {tuple(rows.stride())} for shape {tuple(rows.shape)}: elements lie on each "
                "other; accepted: any strides that keep them apart"
            )
        reach += stride * (size - 1)


@store_target("store", contract=CONTRACT, cache=Form("slots", codes="uint8"))
def store(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """kvcheck's own kernel, right on every input it takes."""
    launch(k, v, slots, cache)
