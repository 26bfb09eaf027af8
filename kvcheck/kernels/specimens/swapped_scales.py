"""Specimen: the store with given scales, with K's for V and V's for K."""

from __future__ import annotations

from dataclasses import replace

import torch

from kvcheck.api import Cache, Side, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import GIVEN, STORE_GIVEN, launch


@store_target("specimen:swapped-scales", contract=GIVEN, cache=Form("slots"), declares="scale-swapped")
def swapped_scales(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever they are equal."""
    k_side = Side("k", {**cache.k.views, "scale": cache.v.scale}, cache.k.missing)  # due: each its own
    v_side = Side("v", {**cache.v.views, "scale": cache.k.scale}, cache.v.missing)
    launch(k, v, slots, replace(cache, k=k_side, v=v_side), STORE_GIVEN, given=True)
