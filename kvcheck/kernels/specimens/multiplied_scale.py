"""Specimen: the store with given scales, multiplied with instead of divided by."""

from __future__ import annotations

import torch
import triton
import triton.language as tl  # noqa: F401 - Triton's interpreter looks for it in a kernel's module

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import GIVEN, STORE_GIVEN, launch, with_part


@triton.jit
def multiply(value, scale):
    """The values times their scales."""
    return value * scale  # due: value / scale


@store_target("specimen:multiplied-scale", contract=GIVEN, cache=Form("slots"), declares="scale-misapplied")
def multiplied_scale(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever the scale is 1."""
    launch(k, v, slots, cache, with_part(STORE_GIVEN, apply=multiply), given=True)
