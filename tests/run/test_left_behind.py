"""A run that is killed leaves no process behind, one that somebody has stopped included."""

from __future__ import annotations

import contextlib
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from .chaos import Who, processes
from .command import KERNELS, start, write_matrix
from .processes import is_running, wait_for

#: Whose ends are each other's doing: all that a run has started.
KINDS: tuple[Who, ...] = ("case", "nursery", "judge")


@pytest.mark.parametrize(
    ("stopped", "killed"),
    [(("judge",), ()), (("nursery",), ()), (("case",), ()), (KINDS, ()), (("case",), ("nursery",))],
    ids=lambda kinds: "+".join(kinds) or "run-alone",
)
def test_what_was_stopped_ends_with_a_run_that_is_killed(
    stopped: tuple[Who, ...], killed: tuple[Who, ...], tmp_path: Path
) -> None:
    """And holds none of its pipes: whoever reads what the run prints sees their end. Others may be killed before it."""
    cases = write_matrix(tmp_path / "cases.toml", heads=list(range(1, 60)), tokens=1, head_dim=8)
    asked = ("matrix", cases, "--target", KERNELS / "mixed.py", "-j", 2, "--device", "cpu", "--out", tmp_path / "out")
    run = start(*asked, cwd=tmp_path)
    started: set[int] = set()
    try:
        for who in KINDS:
            wait_for(partial(_ready, run.pid, who))
        for who in stopped:
            for pid in _ready(run.pid, who):
                os.kill(pid, signal.SIGSTOP)
        started = {pid for who in KINDS for pid in processes(run.pid, who)}
        run.send_signal(signal.SIGSTOP)  # it would see what is killed before it
        for who in killed:
            for pid in processes(run.pid, who):
                os.kill(pid, signal.SIGKILL)
        run.kill()
        run.communicate(timeout=20)
        wait_for(lambda: not any(map(is_running, started)), 20)
    finally:
        run.kill()
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _ready(run: int, who: Who) -> list[int]:
    """Its processes of a kind; of cases those that lead a session: by then they are to end with their parent.

    One that is stopped between its fork and that would stay: nothing that it could ask for is inherited.
    """
    found = processes(run, who)
    return [pid for pid in found if _leads(pid)] if who == "case" else found


def _leads(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid) == pid
    return False
