"""Specimen: the store, with scales that are kept and never applied."""

from __future__ import annotations

import torch
import triton
import triton.language as tl  # noqa: F401 - Triton's interpreter looks for it in a kernel's module

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def leave(value, scale):
    """The values as they are."""
    return value  # due: value / scale


@store_target("specimen:unapplied-scale", contract=COMPUTED, cache=Form("slots"), declares="scale-misapplied")
def unapplied_scale(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever the scale is 1."""
    launch(k, v, slots, cache, with_part(apply=leave))
