"""Specimen: the store, with the sign of zeros lost."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.encode import encode_e4m3fn
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def encode_positive_zero(scaled, seed):
    """The codes of scaled values, with one zero."""
    code = encode_e4m3fn(scaled)
    return tl.where(code == 0x80, 0x00, code)  # due: code


@store_target("specimen:positive-zero", contract=COMPUTED, cache=Form("slots"), declares="negative-zero")
def positive_zero(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever nothing negative becomes zero."""
    launch(k, v, slots, cache, with_part(encode=encode_positive_zero))
