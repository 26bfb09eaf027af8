"""Specimen: the store, with pages of rows in a cache whose pages are of heads."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part

FORM = Form("heads_pages", page=4)


@triton.jit
def to_rows(
    codes, slot, page_size, head, dim, page_stride, row_stride, head_stride, inner_stride,
    HEADS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """Where the codes would belong in `[pages, rows, heads, head_dim]`."""
    row = slot % page_size * (HEADS * DIM)  # due: row_stride; and head_stride for head * DIM
    return codes + (slot // page_size) * page_stride + row + head * DIM + dim * inner_stride


@store_target("specimen:row-major-pages", contract=COMPUTED, cache=FORM, declares="cache-layout")
def row_major_pages(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever there is one head, and no padding."""
    launch(k, v, slots, cache, with_part(to=to_rows), form=FORM)
