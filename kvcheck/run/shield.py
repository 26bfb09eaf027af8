"""A process between the run and one that calls a target: a target that kills its parent must not end the run."""

from __future__ import annotations

import ctypes
import os
import signal

#: From <sys/prctl.h>.
_PR_SET_PDEATHSIG = 1


def shielded() -> None:
    """Go on in a child. This process only waits for it, ends as it does, and takes it along when it is killed."""
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status < 0:
            os.kill(os.getpid(), -status)
        os._exit(status)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
