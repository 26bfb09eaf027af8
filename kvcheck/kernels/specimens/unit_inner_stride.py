"""Specimen: the store, with elements taken to lie side by side."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def at_unit_stride(
    source, token, head, dim, token_stride, head_stride, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The elements of a row, one after the other."""
    return source + token * token_stride + head * head_stride + dim  # due: dim * inner_stride


@store_target("specimen:unit-inner-stride", contract=COMPUTED, cache=Form("slots"), declares="inner-stride-ignored")
def unit_inner_stride(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever they do."""
    launch(k, v, slots, cache, with_part(at=at_unit_stride))
