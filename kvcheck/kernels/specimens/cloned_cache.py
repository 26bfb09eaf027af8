"""Specimen: the store, into a contiguous copy of a cache that is not contiguous."""

from __future__ import annotations

from dataclasses import replace

import torch

from kvcheck.api import Cache, Side, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch


@store_target("specimen:cloned-cache", contract=COMPUTED, cache=Form("slots"), declares="token-lost")
def cloned_cache(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever the cache's codes have no padding."""
    k_side, v_side = (
        Side(side.name, {**side.views, "codes": side.codes.contiguous()}, side.missing)  # due: side.codes
        for side in (cache.k, cache.v)
    )
    launch(k, v, slots, replace(cache, k=k_side, v=v_side))
