"""A right store whose import has processes run short: `KVCHECK_TEST_FORKS` says for which forks, counted from 1."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import errno
import itertools
import os

import right  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

import kvcheck
from kvcheck import Cache

NONE = range(*map(int, os.environ.get("KVCHECK_TEST_FORKS", "0:0").split(":")))
forks = itertools.count(1)
fork = os.fork


def short() -> int:
    """Fork, where there is a process to be had."""
    if next(forks) in NONE:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return fork()


os.fork = short


@kvcheck.store_target("forkless", contract=right.CONTRACT)
def forkless(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store, and no more."""
    right.store(k, v, slots, cache)
