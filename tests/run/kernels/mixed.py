"""A store that takes a moment; right for most numbers of heads, and wrong or raising for some."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import time

import right  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

import kvcheck
from kvcheck import Cache


@kvcheck.store_target("mixed", contract=right.CONTRACT)
def mixed(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Wait, then store: of every fifth number of heads other codes, of every seventh nothing."""
    time.sleep(0.1)
    if k.shape[1] % 7 == 0:
        raise ValueError("not these")
    right.store(k, v, slots, cache)
    if k.shape[1] % 5 == 0:
        cache.v.codes[slots] ^= 1
