"""Look at processes from outside, by id."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """The ids of a process's children; none where it has gone."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []


def wait_for(found: Callable[[], Found], seconds: float = 60.0) -> Found:
    """Ask again until the answer is true, and return it. Fails after `seconds`."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        answer = found()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"not so after {seconds:.0f} s")


def command_line(pid: int) -> str:
    """What a process was started as; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
