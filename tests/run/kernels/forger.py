"""Stores that tamper with what they are judged by, once they have stored nothing or everything."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import right  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

import kvcheck
from kvcheck import Cache
from kvcheck.memory.arena import Bytes, Memory


@kvcheck.store_target("forger", contract=right.CONTRACT)
def forger(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store nothing, and have the rows put right only where they are read."""
    download = Memory.download

    def forged(memory: Memory) -> tuple[Bytes, ...]:
        right.store(k, v, slots, cache)
        return download(memory)

    Memory.download = forged  # type: ignore[assignment, method-assign] # the point


@kvcheck.store_target("sweeper", contract=right.CONTRACT)
def sweeper(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store, and remove every file that kvcheck has among the temporary ones."""
    right.store(k, v, slots, cache)
    for folder in Path(tempfile.gettempdir()).glob("kvcheck-*"):
        shutil.rmtree(folder, ignore_errors=True)
