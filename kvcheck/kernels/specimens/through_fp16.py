"""Specimen: the store, with scaled values rounded to fp16 on their way."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.encode import encode_e4m3fn
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def encode_through_fp16(scaled, seed):
    """The codes of scaled values, rounded twice."""
    return encode_e4m3fn(scaled.to(tl.float16).to(tl.float32))  # due: scaled


@store_target("specimen:through-fp16", contract=COMPUTED, cache=Form("slots"), declares="double-rounding-fp16")
def through_fp16(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever that rounding does not make a tie."""
    launch(k, v, slots, cache, with_part(encode=encode_through_fp16))
