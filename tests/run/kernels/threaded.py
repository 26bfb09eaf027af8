"""A right store whose import leaves a thread behind, and that waits for it for ever where there is none."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import threading

import right  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

import kvcheck
from kvcheck import Cache

asked, answered = threading.Event(), threading.Event()


def _serve() -> None:
    while asked.wait():
        answered.set()
        asked.clear()


threading.Thread(target=_serve, daemon=True).start()


@kvcheck.store_target("threaded", contract=right.CONTRACT)
def threaded(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store once the thread has answered, which it does not in a fork."""
    asked.set()
    if not answered.wait(20):
        raise RuntimeError("the thread that the import started is gone")
    right.store(k, v, slots, cache)
