"""A store that kills the process it was forked from, for one number of tokens; and another target in the same file."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import os
import signal

import right  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

import kvcheck
from kvcheck import Cache


@kvcheck.store_target("killer", contract=right.CONTRACT)
def killer(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Kill the parent where there are two tokens."""
    right.store(k, v, slots, cache)
    if len(k) == 2:
        os.kill(os.getppid(), signal.SIGKILL)


@kvcheck.store_target("bystander", contract=right.CONTRACT)
def bystander(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store, and no more."""
    right.store(k, v, slots, cache)
