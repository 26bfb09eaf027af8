"""A store that hangs while it is loaded, as `KVCHECK_TEST_STUCK` says: in `prepare`, or in any import but the first."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import right  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

import kvcheck
from kvcheck import Cache

WAY, _, FILE = os.environ.get("KVCHECK_TEST_STUCK", "").partition(":")


def wait_for_ever() -> None:
    """As for a lock that nobody gives back."""
    while True:
        time.sleep(1)


def prepare() -> None:
    """Hang where that is asked for."""
    if WAY == "prepare":
        wait_for_ever()


if WAY in ("kills", "wrong"):
    if Path(FILE).exists():
        wait_for_ever()
    Path(FILE).touch()


@kvcheck.store_target("stuck", contract=right.CONTRACT, prepare=prepare)
def stuck(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store; of three tokens other codes, or, once they are stored, kill the process that this one was forked from."""
    right.store(k, v, slots, cache)
    if WAY == "wrong" and len(k) == 3:
        cache.v.codes[slots] ^= 1
    if WAY == "kills" and len(k) == 3:
        os.kill(os.getppid(), signal.SIGKILL)
