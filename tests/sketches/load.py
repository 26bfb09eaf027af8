"""Load targets: codes and scales to rows."""

from __future__ import annotations

import torch
from torch import Tensor

from kvcheck import Cache, Form, LoadContract, Output, load_target

from .arithmetic import dense


def dequantize(codes: Tensor, scales: Tensor, out: Tensor) -> None:
    """Stand-in. Gathered `codes` uint8 `[T, H, D]`, `scales` fp32 that broadcast to it; writes `out`, dense."""
    assert codes.dtype == torch.uint8
    assert scales.dtype == torch.float32
    assert out.shape == codes.shape
    assert out.stride() == dense(out)
    out.copy_((codes.view(torch.float8_e4m3fn).float() * scales).to(out.dtype))


@load_target("decode", contract=LoadContract(scale="token_head", out="bf16"), cache=Form("slots"))
def decode(slots: Tensor, cache: Cache, out: Output) -> None:
    """One scale a token and head, in tensors of their own."""
    where = slots.long()
    for side, rows in ((cache.k, out.k), (cache.v, out.v)):
        assert rows.dtype == torch.bfloat16
        assert side.codes.stride() == dense(side.codes)
        assert side.scales.stride() == dense(side.scales)
        dequantize(side.codes[where], side.scales[where][..., None], rows)


@load_target("decode-inline", contract=LoadContract(out="fp16"), cache=Form("pages", page=16, scales="inline"))
def decode_inline(slots: Tensor, cache: Cache, out: Output) -> None:
    """One scale a token and head, behind the codes."""
    page, row = slots.long() // cache.page, slots.long() % cache.page
    for side, rows in ((cache.k, out.k), (cache.v, out.v)):
        assert rows.dtype == torch.float16
        dequantize(side.pages[page, row].contiguous(), side.scale_pages[page, row][..., None], rows)


@load_target("decode-heads", contract=LoadContract(scale="head", out="fp32"), cache=Form("packed", page=8))
def decode_heads(slots: Tensor, cache: Cache, out: Output) -> None:
    """One given scale a head, K and V packed in one tensor of head-major pages."""
    page, row = slots.long() // cache.page, slots.long() % cache.page
    pages = cache.fused
    assert pages.shape[1:] == (cache.heads, cache.page, cache.head_dim + cache.head_dim_v)
    assert pages.stride() == dense(pages)
    rows = pages[page, :, row]
    dequantize(rows[..., : cache.head_dim].contiguous(), cache.k.scale[:, None], out.k)
    dequantize(rows[..., cache.head_dim :].contiguous(), cache.v.scale[:, None], out.v)
