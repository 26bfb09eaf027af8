"""A store that is wrong in a fork; in an interpreter that has loaded it itself kills its parent or leaves a child."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import right  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

import kvcheck
from kvcheck import Cache

LOADED_IN = os.getpid()


@kvcheck.store_target("assassin", contract=right.CONTRACT)
def assassin(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store other codes. Of one token, in a fresh interpreter, kill the parent; of two, leave a process behind."""
    right.store(k, v, slots, cache)
    cache.v.codes[slots] ^= 1
    if os.getpid() != LOADED_IN:
        return
    if len(k) == 1:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    elif not Path(os.environ["KVCHECK_TEST_PIDS"]).exists() and os.fork() == 0:
        os.setsid()
        Path(os.environ["KVCHECK_TEST_PIDS"]).write_text(str(os.getpid()), encoding="ascii")
        time.sleep(1000)
