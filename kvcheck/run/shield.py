"""A process between the run and one that calls a target: a target that kills its parent must not end the run."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from pathlib import Path

#: From <sys/prctl.h>.
_PR_SET_PDEATHSIG = 1
#: Found before any fork: until a child has called it, nothing ends it where it is stopped and its parent gone.
_prctl = ctypes.CDLL(None).prctl


def shielded() -> None:
    """Go on in a child. This process only waits for it, ends as it does, and takes it along when it is killed."""
    shield = os.getpid()  # before the fork: it may be gone behind it
    child = os.fork()
    if child:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it dies of what another has done
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status < 0:
            os.kill(os.getpid(), -status)
        os._exit(status)
    end_with(shield)


def end_with(parent: int) -> None:
    """From now on this process is killed where its parent ends; at once where that has been."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def end_by_itself() -> None:
    """From now on it is not: it sees its parent's end and takes care of its own.

    Which it cannot while somebody has stopped it: then it goes on where its parent ends.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)


def behind(shield: int) -> int:
    """The process that goes on behind a shield; the shield itself where it has none yet, or no more."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{shield}/task/{shield}/children").read_text(encoding="ascii").split()[0])
    return shield
