"""Specimen: the store, with values multiplied by the scale's reciprocal."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def multiply_reciprocal(value, scale):
    """The values in units of their scales, with one rounding too many."""
    return value * tl.div_rn(tl.full(scale.shape, 1.0, tl.float32), scale)  # due: value / scale


@store_target("specimen:reciprocal", contract=COMPUTED, cache=Form("slots"), declares="approximate-division")
def reciprocal(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right but for quotients next to a tie, less than one in a thousand."""
    launch(k, v, slots, cache, with_part(apply=multiply_reciprocal))
