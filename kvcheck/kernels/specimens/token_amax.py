"""Specimen: the store, with the largest magnitude of the whole token for each of its heads."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, largest, launch, with_part


@triton.jit
def amax_of_token(value, place, head, dim, inner_stride, HEADS: tl.constexpr, DIM: tl.constexpr):
    """The amax of all heads, for each."""
    amax = largest(value)
    return tl.max(amax, axis=0) + tl.zeros_like(amax)  # due: amax


@store_target("specimen:token-amax", contract=COMPUTED, cache=Form("slots"), declares="amax-population")
def token_amax(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right for the head that has it, and wherever there is one head."""
    launch(k, v, slots, cache, with_part(amax=amax_of_token))
