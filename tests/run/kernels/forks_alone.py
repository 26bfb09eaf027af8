"""A store that fails in a process that was forked after it was imported, and in no other."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import os

import right  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

import kvcheck
from kvcheck import Cache

LOADED_IN = os.getpid()


@kvcheck.store_target("forks-alone", contract=right.CONTRACT)
def forks_alone(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store, where this process has loaded this file itself."""
    if os.getpid() != LOADED_IN:
        raise RuntimeError("forked")
    right.store(k, v, slots, cache)
