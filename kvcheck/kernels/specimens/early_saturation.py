"""Specimen: the store, with all values of the highest exponent saturated."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.encode import encode_e4m3fn
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def encode_saturated_early(scaled, seed):
    """The codes of scaled values, 448 for all from 256 on."""
    code = encode_e4m3fn(scaled)
    return tl.where(tl.abs(scaled) >= 256.0, (code & 0x80) | 0x7E, code)  # due: code


@store_target("specimen:early-saturation", contract=COMPUTED, cache=Form("slots"), declares="early-saturation")
def early_saturation(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever no scaled value is between 256 and 416."""
    launch(k, v, slots, cache, with_part(encode=encode_saturated_early))
