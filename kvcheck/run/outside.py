"""Ends that may be no doing of the case's own: somebody has killed or stopped its process.

Of most signals nobody can say where they came from, but no mistake of a kernel's raises them. Those that a mistake does
raise say in the process itself whether another one sent them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from kvcheck.memory.fault_signals import made_by_an_instruction, on_signal, sender_of
from kvcheck.run.protocol import SENDER, STAGE

#: Signals by which people, terminals, service managers and kernels short of memory end processes.
SENT = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT})

#: Seconds for which a process of the run's own may be stopped.
STOPPED = 5.0

#: Signals of a failing instruction.
RAISED = (signal.SIGSEGV, signal.SIGBUS)


def note_sender(folder: Path) -> None:
    """Leave a file in a case's folder when this process is ended by a signal that another process sent."""
    path = str(folder / SENDER)

    def note(info: int, _: int) -> None:
        if not made_by_an_instruction(info) and sender_of(info) != os.getpid():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))

    for number in RAISED:
        on_signal(number, note)


def killed_from_outside(number: int | None, folder: Path) -> bool:
    """Whether a child that a signal ended, at no limit of kvcheck's, may have been ended by somebody else.

    So it was before the case had begun: nothing of the target's had run.
    """
    if number is None:
        return False
    return number in SENT or (folder / SENDER).exists() or not (folder / STAGE).exists()


class Waker:
    """Continues a process of the run's own that a signal has stopped, after a while: the run would wait for it.

    Who wants a run to pause stops the run.
    """

    def __init__(self, pid: int) -> None:
        """Of one process, which is not looked at yet."""
        self._pid = pid
        self._since: float | None = None

    def look(self) -> None:
        """See whether it is stopped. To be called every second or so."""
        now = time.monotonic()
        if not stopped(self._pid):
            self._since = None
        elif self._since is None:
            self._since = now
        elif now > self._since + STOPPED:
            self._since = None
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGCONT)


def stopped(pid: int) -> bool:
    """Whether a signal has stopped a process, which then waits to be continued."""
    with contextlib.suppress(OSError):
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0] == "T"
        )
    return False
