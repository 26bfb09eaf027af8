"""Specimen: the store, with NaN clamped to 448."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.encode import encode_e4m3fn
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def encode_nan_clamped(scaled, seed):
    """The codes of scaled values, none of them NaN."""
    return tl.where(scaled == scaled, encode_e4m3fn(scaled), 0x7E)  # due: 0x7F


@store_target("specimen:laundered-nan", contract=COMPUTED, cache=Form("slots"), declares="nan-laundered")
def laundered_nan(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever no value is NaN."""
    launch(k, v, slots, cache, with_part(encode=encode_nan_clamped))
