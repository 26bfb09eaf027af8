"""Processes that are known by a mark in their environment, wherever they have gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from kvcheck.run.protocol import MARK


def end_marked(mark: str) -> None:
    """Kill every process with a mark, orphans and sessions of their own included."""
    # A process may fork while the list is made, and takes its time to die: look again until there is none.
    for _ in range(100):
        left = marked(mark)
        if not left:
            break
        for pid in left:
            kill(pid)
        time.sleep(0.01)


def marked(mark: str) -> list[int]:
    """The live processes that were started with this mark in their environment, or are forks of such a process.

    A process that has lost its parents and left their session and group is found all the same.
    """
    wanted = f"{MARK}={mark}".encode()
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            # Gone, another user's, or a zombie, which has no environment left.
            with contextlib.suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found


def kill(pid: int) -> None:
    """SIGKILL a process, and its group where it leads one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
