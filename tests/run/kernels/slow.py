"""A right store that takes a moment, so that a run of it can be cut."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import time

import right  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

import kvcheck
from kvcheck import Cache


@kvcheck.store_target("slow", contract=right.CONTRACT)
def slow(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Wait, then store."""
    time.sleep(0.1)
    right.store(k, v, slots, cache)
