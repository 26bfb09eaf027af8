"""Specimen: the store, with a range of just as many lanes as a head has elements."""

from __future__ import annotations

import torch

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@store_target("specimen:exact-range", contract=COMPUTED, cache=Form("slots"), declares="compile-failure")
def exact_range(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever head_dim is a power of two: Triton has no other ranges."""
    launch(k, v, slots, cache, with_part(exact_block=True))  # due: the next power of two, and a mask
