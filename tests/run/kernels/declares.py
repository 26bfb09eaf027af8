"""A right kernel that is declared as a known-bad one."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import torch

import kvcheck
from kvcheck import Cache
from kvcheck.kernels.store import CONTRACT, launch


@kvcheck.store_target("innocent", contract=CONTRACT, declares="sibling-pitch")
def innocent(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """kvcheck's own store, right whatever the views."""
    launch(k, v, slots, cache)
