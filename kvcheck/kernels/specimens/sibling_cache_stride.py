"""Specimen: the store, with the strides of K's cache for V's."""

from __future__ import annotations

import torch

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch


@store_target("specimen:sibling-cache-stride", contract=COMPUTED, cache=Form("slots"), declares="sibling-cache-stride")
def sibling_cache_stride(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever the rows of both caches lie alike."""
    launch(k, v, slots, cache, v_codes_like_k=True)
