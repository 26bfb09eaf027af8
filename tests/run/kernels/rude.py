"""A right store whose import takes liberties with its process: signals, folder, threads, and every open file."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import right  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

import kvcheck
from kvcheck import Cache

for file in range(3, 64):
    with contextlib.suppress(OSError):
        os.write(file, b'{"targets":[]}\nnoise')
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
os.chdir("/")


@kvcheck.store_target("rude", contract=right.CONTRACT)
def rude(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store, and no more."""
    right.store(k, v, slots, cache)
