"""Specimen: the store, with V's token pitch for K and for V."""

from __future__ import annotations

import torch

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.store import CONTRACT, launch


@store_target("specimen:shared-pitch-of-v", contract=CONTRACT, cache=Form("slots"), declares="sibling-pitch")
def shared_pitch_of_v(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever K's and V's pitch are equal, or there is one token."""
    launch(k, v, slots, cache, k_strides=(v.stride(0), k.stride(1), k.stride(2)))  # due: k.stride(0)
