"""Specimen: the store, with scaled values stored into bytes as numbers."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def convert(scaled, seed):
    """The integer part of scaled values, which the store wraps to a byte."""
    return tl.where(scaled == scaled, scaled, 0.0).to(tl.int32)  # due: encode_e4m3fn(scaled)


@store_target("specimen:numeric-store", contract=COMPUTED, cache=Form("slots"), declares="numeric-store")
def numeric_store(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right for zeros, and for NaN and a few numbers by chance."""
    launch(k, v, slots, cache, with_part(encode=convert))
