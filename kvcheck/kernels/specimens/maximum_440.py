"""Specimen: the store, with 440 for the format's largest value."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def scale_to_440(amax, place, mask):
    """The scale of each head."""
    return tl.div_rn(tl.maximum(amax, 1e-10), tl.full(amax.shape, 440.0, tl.float32))  # due: 448.0


@store_target("specimen:maximum-440", contract=COMPUTED, cache=Form("slots"), declares="wrong-max")
def maximum_440(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right nowhere but in rows of zeros: the scales are 448/440 of the right ones."""
    launch(k, v, slots, cache, with_part(scale_of=scale_to_440))
