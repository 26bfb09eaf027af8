"""What the specimens share: a right store, made of parts. A specimen is this store with one part that is wrong.

One program a token stores its row of K and its row of V. For each of them the kernel calls its parts in this order:

    pick        the slot of the token, or -1
    at          where the row's elements lie
    load        their values, as fp32
    amax        the largest magnitude of each head
    scale_of    the scale of each head
    apply       the values in units of the scale
    encode      their codes
    to, keep    where the codes belong, and the store
    scale_to, keep_scale    likewise for the scales

A part is a Triton function of what it may need; `head` is `[heads, 1]` and `dim` `[1, head_dim]`, strides are in
elements. The module's own functions are the right ones, and `STORE` is made of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, Side
from kvcheck.contract import Contract, Form, Given
from kvcheck.kernels.encode import encode_e4m3fn
from kvcheck.kernels.store import CONTRACT as COMPUTED
from kvcheck.kernels.store import SLOTS_A_STEP, is_named_later

#: The contracts of the specimens: a scale of each token and head, found by the kernel; or one that it is given.
GIVEN = Contract(scale=Given("tensor"), apply="divide")
__all__ = ["COMPUTED", "GIVEN", "STORE", "STORE_GIVEN", "Parts", "launch", "with_part"]


@triton.jit
def pick(slots, slots_stride, slots_count, token, cache_slots, STEP: tl.constexpr):
    """The slot of a token, or -1; of tokens that share one, only the last is stored."""
    slot = tl.load(slots + token * slots_stride).to(tl.int64)
    return tl.where(is_named_later(slots, slots_stride, slots_count, token, slot, STEP), -1, slot)


@triton.jit
def at(source, token, head, dim, token_stride, head_stride, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """Where the elements of a token's row lie."""
    return source + token * token_stride + head * head_stride + dim * inner_stride


@triton.jit
def load(place, mask):
    """The row, zero beyond its heads and dims."""
    return tl.load(place, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def largest(value):
    """The largest magnitude of each head. NaN is no part of it."""
    magnitude = tl.abs(value)
    return tl.max(tl.where(magnitude == magnitude, magnitude, 0.0), axis=1)


@triton.jit
def amax(value, place, head, dim, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """The amax of each head."""
    return largest(value)


@triton.jit
def per(top, amax, least):
    """The scale that makes `amax`, or at least `least`, as large as `top`."""
    return tl.div_rn(tl.maximum(amax, least), tl.full(amax.shape, top, tl.float32))


@triton.jit
def scale_of(amax, place, mask):
    """The scale of each head. `place` is where it will be kept."""
    return per(448.0, amax, 1e-10)


@triton.jit
def given_scale(amax, place, mask):
    """The scale that is given for the tensor, for each head."""
    return tl.load(place, mask=mask, other=1.0).to(tl.float32) + tl.zeros_like(amax)


@triton.jit
def apply(value, scale):
    """The values in units of their scales, which are as wide as they are."""
    return tl.div_rn(value, scale)


@triton.jit
def encode(scaled, seed):
    """The codes of scaled values."""
    return encode_e4m3fn(scaled)


@triton.jit
def to(
    codes,
    slot,
    page_size,
    head,
    dim,
    page_stride,
    row_stride,
    head_stride,
    inner_stride,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
):
    """Where the codes of a slot's row belong. A cache without pages has one row a page."""
    row = (slot // page_size) * page_stride + (slot % page_size) * row_stride
    return codes + row + head * head_stride + dim * inner_stride


@triton.jit
def keep(place, code, source_place, head, dim, head_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """Store the codes of a row."""
    tl.store(place, code.to(tl.uint8), mask=(head < HEADS) & (dim < DIM))


@triton.jit
def scale_to(scales, slot, page_size, head, cache_slots, page_stride, row_stride, head_stride, HEADS: tl.constexpr):
    """Where the scales of a slot's row belong. `head` is `[heads]`."""
    return scales + (slot // page_size) * page_stride + (slot % page_size) * row_stride + head * head_stride


@triton.jit
def keep_scale(place, scale, mask):
    """Store the scales of a row."""
    tl.store(place, scale, mask=mask)


@triton.jit
def keep_no_scale(place, scale, mask):
    """Store no scale: it was given."""


@triton.jit
def store_row(
    source, codes, scales, token, slot, page_size, cache_slots, seed,
    source_token, source_head, source_inner, codes_page, codes_row, codes_head, codes_inner,
    scales_page, scales_row, scales_head,
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK_HEADS: tl.constexpr, BLOCK_DIM: tl.constexpr,
    AT: tl.constexpr, LOAD: tl.constexpr, AMAX: tl.constexpr, SCALE_OF: tl.constexpr, APPLY: tl.constexpr,
    ENCODE: tl.constexpr, TO: tl.constexpr, KEEP: tl.constexpr, SCALE_TO: tl.constexpr, KEEP_SCALE: tl.constexpr,
):  # fmt: skip
    """Store one token of one tensor."""
    heads = tl.arange(0, BLOCK_HEADS).to(tl.int64)
    head = heads[:, None]
    dim = tl.arange(0, BLOCK_DIM).to(tl.int64)[None, :]
    place = AT(source, token, head, dim, source_token, source_head, source_inner, HEADS, DIM)
    value = LOAD(place, (head < HEADS) & (dim < DIM))
    top = AMAX(value, place, head, dim, source_inner, HEADS, DIM)
    scale_place = SCALE_TO(scales, slot, page_size, heads, cache_slots, scales_page, scales_row, scales_head, HEADS)
    scale = SCALE_OF(top, scale_place, heads < HEADS)
    scaled = APPLY(value, tl.broadcast_to(scale[:, None], value.shape))
    code = ENCODE(scaled, seed)
    code_place = TO(codes, slot, page_size, head, dim, codes_page, codes_row, codes_head, codes_inner, HEADS, DIM)
    KEEP(code_place, code, place, head, dim, codes_head, HEADS, DIM)
    KEEP_SCALE(scale_place, scale, heads < HEADS)


@triton.jit
def specimen_kernel(
    k, v, slots, k_codes, v_codes, k_scales, v_scales, slots_stride, slots_count, page_size, cache_slots, seed,
    k_token, k_head, k_inner, v_token, v_head, v_inner,
    kc_page, kc_row, kc_head, kc_inner, vc_page, vc_row, vc_head, vc_inner,
    ks_page, ks_row, ks_head, vs_page, vs_row, vs_head,
    HEADS: tl.constexpr, DIM_K: tl.constexpr, DIM_V: tl.constexpr, BLOCK_HEADS: tl.constexpr,
    BLOCK_DIM_K: tl.constexpr, BLOCK_DIM_V: tl.constexpr, STEP: tl.constexpr, PICK: tl.constexpr,
    AT: tl.constexpr, LOAD: tl.constexpr, AMAX: tl.constexpr, SCALE_OF: tl.constexpr, APPLY: tl.constexpr,
    ENCODE: tl.constexpr, TO: tl.constexpr, KEEP: tl.constexpr, SCALE_TO: tl.constexpr, KEEP_SCALE: tl.constexpr,
):  # fmt: skip
    """Store one token of K and of V; a negative slot stores nothing."""
    token = tl.program_id(0).to(tl.int64)
    slot = PICK(slots, slots_stride, slots_count, token, cache_slots, STEP)
    if slot >= 0:
        store_row(
            k, k_codes, k_scales, token, slot, page_size, cache_slots, seed, k_token, k_head, k_inner,
            kc_page, kc_row, kc_head, kc_inner, ks_page, ks_row, ks_head, HEADS, DIM_K, BLOCK_HEADS, BLOCK_DIM_K,
            AT, LOAD, AMAX, SCALE_OF, APPLY, ENCODE, TO, KEEP, SCALE_TO, KEEP_SCALE,
        )  # fmt: skip
        store_row(
            v, v_codes, v_scales, token, slot, page_size, cache_slots, seed, v_token, v_head, v_inner,
            vc_page, vc_row, vc_head, vc_inner, vs_page, vs_row, vs_head, HEADS, DIM_V, BLOCK_HEADS, BLOCK_DIM_V,
            AT, LOAD, AMAX, SCALE_OF, APPLY, ENCODE, TO, KEEP, SCALE_TO, KEEP_SCALE,
        )  # fmt: skip


class Part(Protocol):
    """A Triton function."""

    def __call__(self, *args: object) -> object:
        """One step of the kernel, called by it."""


@dataclass(frozen=True)
class Parts:
    """What a store is made of.

    `spare_lanes` widens the block: so many lanes at least lie beyond a head's elements. `exact_block` has no such lane.
    """

    pick: Part = pick
    at: Part = at
    load: Part = load
    amax: Part = amax
    scale_of: Part = scale_of
    apply: Part = apply
    encode: Part = encode
    to: Part = to
    keep: Part = keep
    scale_to: Part = scale_to
    keep_scale: Part = keep_scale
    spare_lanes: int = 0
    exact_block: bool = False

    def block(self, dim: int) -> int:
        """Lanes for a head of `dim` elements."""
        return dim if self.exact_block else triton.next_power_of_2(dim + self.spare_lanes)


#: The right store, that finds its scales; and the one that is given them.
STORE = Parts()
STORE_GIVEN = Parts(scale_of=given_scale, keep_scale=keep_no_scale)


def with_part(parts: Parts = STORE, **exchanged: Part | int) -> Parts:
    """`parts` with others in their place."""
    return replace(parts, **exchanged)  # type: ignore[arg-type] # each is of its field's type


def launch(
    k: torch.Tensor,
    v: torch.Tensor,
    slots: torch.Tensor,
    cache: Cache,
    parts: Parts = STORE,
    *,
    form: Form | None = None,
    given: bool = False,
    tokens: int | None = None,
    v_codes_like_k: bool = False,
    seed: int = 0,
) -> None:
    """Store `tokens` rows of K and of V (as many as there are slots) with these parts into a cache of this form.

    `v_codes_like_k` hands the kernel the strides of K's codes for V's, too.
    """
    count = len(slots) if tokens is None else tokens
    if count == 0:
        return
    paged = form is not None and form.kind in ("pages", "heads_pages")
    codes_k, codes_v = (_paged(side.pages, form) if paged else _rows(side.codes) for side in (cache.k, cache.v))
    scales_k, scales_v = (_scales(side, form, given=given, paged=paged) for side in (cache.k, cache.v))
    specimen_kernel[(count,)](
        k, v, slots, codes_k[0], codes_v[0], scales_k[0], scales_v[0], slots.stride(0), len(slots),
        cache.page if paged else 1, cache.slots, seed, *k.stride(), *v.stride(),
        *codes_k[1], *(codes_k if v_codes_like_k else codes_v)[1], *scales_k[1], *scales_v[1],
        HEADS=k.shape[1], DIM_K=k.shape[2], DIM_V=v.shape[2], BLOCK_HEADS=triton.next_power_of_2(k.shape[1]),
        BLOCK_DIM_K=parts.block(k.shape[2]), BLOCK_DIM_V=parts.block(v.shape[2]), STEP=SLOTS_A_STEP,
        PICK=parts.pick, AT=parts.at, LOAD=parts.load, AMAX=parts.amax, SCALE_OF=parts.scale_of, APPLY=parts.apply,
        ENCODE=parts.encode, TO=parts.to, KEEP=parts.keep, SCALE_TO=parts.scale_to, KEEP_SCALE=parts.keep_scale,
    )  # fmt: skip


_Strided = tuple[torch.Tensor, tuple[int, ...]]


def _rows(tensor: torch.Tensor) -> _Strided:
    """`[slots, heads, …]` and its strides as (page, row, head, …): a row a page."""
    slot, *rest = tensor.stride()
    return tensor, (slot, 0, *rest)


def _paged(tensor: torch.Tensor, form: Form | None) -> _Strided:
    """Pages in the engine's shape, and their strides as (page, row, head, …)."""
    page, first, second, *rest = tensor.stride()
    heads_first = form is not None and form.kind == "heads_pages"
    return tensor, (page, second, first, *rest) if heads_first else (page, first, second, *rest)


def _scales(side: Side, form: Form | None, *, given: bool, paged: bool) -> _Strided:
    """The scales that a side keeps, or is given: the one that is given has strides of zero."""
    if given:
        return side.scale, (0, 0, 0)
    return _paged(side.scale_pages, form) if paged else _rows(side.scales)
