"""Specimen: the store, with subnormal codes flushed to zero."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.encode import encode_e4m3fn
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def encode_flushed(scaled, seed):
    """The codes of scaled values, the smallest of them zeros."""
    code = encode_e4m3fn(scaled)
    return tl.where((code & 0x78) == 0, code & 0x80, code)  # due: code


@store_target("specimen:flushed-subnormals", contract=COMPUTED, cache=Form("slots"), declares="subnormal-flush")
def flushed_subnormals(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever no code is below 0x08."""
    launch(k, v, slots, cache, with_part(encode=encode_flushed))
