"""A store with legal scales that are others in the first process than in all later ones."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import functools
import os
from pathlib import Path

import right  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

import kvcheck
from kvcheck import Cache


@functools.cache
def _nudge() -> int:
    """0 in the first process to ask, 1 in the others."""
    try:
        Path(os.environ["KVCHECK_TEST_FIRST"]).touch(exist_ok=False)
    except FileExistsError:
        return 1
    return 0


@kvcheck.store_target("fickle", contract=right.CONTRACT)
def fickle(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store with this process's own scales."""
    right.store(k, v, slots, cache, nudge=_nudge())
