"""Specimen: the store, into the caches of the first layer."""

from __future__ import annotations

from dataclasses import replace

import torch

from kvcheck.api import Cache, Side, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch


@store_target("specimen:first-layer", contract=COMPUTED, cache=Form("slots"), declares="layer-remap")
def first_layer(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever there is no other layer."""
    launch(k, v, slots, replace(cache, k=_of_first(cache.k), v=_of_first(cache.v)))


def _of_first(side: Side) -> Side:
    codes, scales = side.layers[0], side.scale_layers[0]  # due: [cache.layer]
    return replace(side, views={**side.views, "codes": codes, "scales": scales})
