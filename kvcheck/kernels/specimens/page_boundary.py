"""Specimen: the store, with the first row of a page taken for one of the page before."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part

FORM = Form("pages", page=4)


@triton.jit
def to_page_before(
    codes, slot, page_size, head, dim, page_stride, row_stride, head_stride, inner_stride,
    HEADS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """Where the codes belong, but for the first row of a page."""
    page = tl.maximum(slot - 1, 0) // page_size  # due: slot // page_size
    return codes + page * page_stride + (slot % page_size) * row_stride + head * head_stride + dim * inner_stride


@store_target("specimen:page-boundary", contract=COMPUTED, cache=FORM, declares="page-boundary")
def page_boundary(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right for all other rows, and in the first page."""
    launch(k, v, slots, cache, with_part(to=to_page_before), form=FORM)
