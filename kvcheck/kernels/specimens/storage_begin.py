"""Specimen: the store, with K and V read from the beginning of the memory that they are views of."""

from __future__ import annotations

import torch

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch


@store_target("specimen:storage-begin", contract=COMPUTED, cache=Form("slots"), declares="offset-ignored")
def storage_begin(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever a view begins where its memory does."""
    k, v = (rows.as_strided(rows.shape, rows.stride(), 0) for rows in (k, v))  # due: at their own storage_offset()
    launch(k, v, slots, cache)
