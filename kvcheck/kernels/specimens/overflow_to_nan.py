"""Specimen: the store with given scales, with NaN for what does not fit."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.encode import encode_e4m3fn
from kvcheck.kernels.specimens._base import GIVEN, STORE_GIVEN, launch, with_part


@triton.jit
def encode_unsaturated(scaled, seed):
    """The codes of scaled values, NaN for all that round beyond 448."""
    return tl.where(tl.abs(scaled) > 464.0, 0x7F, encode_e4m3fn(scaled))  # due: 448 with the sign


@store_target("specimen:overflow-to-nan", contract=GIVEN, cache=Form("slots"), declares="overflow-to-nan")
def overflow_to_nan(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever no scaled value is above 464."""
    launch(k, v, slots, cache, with_part(STORE_GIVEN, encode=encode_unsaturated), given=True)
