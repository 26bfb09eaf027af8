"""Specimen: the store with given scales, divided by twice."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import GIVEN, STORE_GIVEN, launch, with_part


@triton.jit
def divide_twice(value, scale):
    """The values in units of their scales' squares."""
    return tl.div_rn(tl.div_rn(value, scale), scale)  # due: one of the two


@store_target("specimen:twice-applied-scale", contract=GIVEN, cache=Form("slots"), declares="scale-misapplied")
def twice_applied_scale(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever the scale is 1."""
    launch(k, v, slots, cache, with_part(STORE_GIVEN, apply=divide_twice), given=True)
