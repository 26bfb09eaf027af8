"""Specimen: the store, two tokens at a time."""

from __future__ import annotations

import torch

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch


@store_target("specimen:odd-token-lost", contract=COMPUTED, cache=Form("slots"), declares="token-lost")
def odd_token_lost(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever the number of tokens is even."""
    launch(k, v, slots, cache, tokens=len(slots) // 2 * 2)  # due: len(slots)
