"""Specimen: the store, with rows addressed in vectors of eight elements."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def at_whole_vectors(
    source, token, head, dim, token_stride, head_stride, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr
):
    """The elements of a row, which is taken to begin with the vector that its first element is in."""
    row = (token * token_stride + head * head_stride) // 8 * 8  # due: without // 8 * 8
    return source + row + dim * inner_stride


@store_target("specimen:truncated-vector", contract=COMPUTED, cache=Form("slots"), declares="misaligned")
def truncated_vector(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever every head of every row begins at a multiple of eight elements."""
    launch(k, v, slots, cache, with_part(at=at_whole_vectors))
