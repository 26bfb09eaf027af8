"""Where a process hangs, in its own words: it prints its stack when it is asked to."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import time
from typing import IO

#: Asks for the stack. faulthandler prints it from inside the signal, also where Python runs no more.
ASK = signal.SIGUSR1

#: Seconds that a process has to print it.
PATIENCE = 1.0

_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)


def tell() -> None:
    """Print this process's stack on standard error whenever it is asked."""
    faulthandler.register(ASK, file=2, all_threads=False, chain=False)


def tell_no_more() -> None:
    """Leave the signal to whoever wants it."""
    faulthandler.unregister(ASK)


def ask(pid: int, log: IO[bytes]) -> str:
    """Where a process is whose standard error is `log`: `file.py, line 3, in <module>`; empty where it does not say."""
    before = os.fstat(log.fileno()).st_size
    os.kill(pid, ASK)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        text = os.pread(log.fileno(), 1 << 16, before).decode(errors="replace")
        if (found := place(text)) and text.endswith("\n"):
            return found
        time.sleep(0.02)
    return ""


def place(printed: str) -> str:
    """The innermost frame of a stack that faulthandler has printed, those inside Python's own import left out."""
    frames = [frame for frame in _FRAME.finditer(printed) if not frame["file"].startswith("<")]
    return "{file}, line {line}, in {function}".format(**frames[0].groupdict()) if frames else ""
