"""Specimen: the store, with pages taken to be as far apart as their codes need."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part

FORM = Form("pages", page=4)


@triton.jit
def to_dense_pages(
    codes, slot, page_size, head, dim, page_stride, row_stride, head_stride, inner_stride,
    HEADS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """Where the codes belong, in pages without padding between them."""
    page = (slot // page_size) * (page_size * HEADS * DIM)  # due: * page_stride
    return codes + page + (slot % page_size) * row_stride + head * head_stride + dim * inner_stride


@store_target("specimen:page-stride-from-shape", contract=COMPUTED, cache=FORM, declares="page-stride-from-shape")
def page_stride_from_shape(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right in the first page, and wherever the cache has no padding."""
    launch(k, v, slots, cache, with_part(to=to_dense_pages), form=FORM)
