"""Who ended a process: it says so itself where the signal is one that its own mistakes raise."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from kvcheck.memory.overrun import FAULT
from kvcheck.run import confirm, outside
from kvcheck.run.outside import killed_from_outside, stopped
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import SENDER, STAGE, Ended, Job
from kvcheck.run.result import not_run
from kvcheck.schema import Case, ProcessVerdict

from .command import environment
from .processes import wait_for
from .test_judges import INFO

BEGIN = """
import ctypes, faulthandler, os, signal, sys, time
from pathlib import Path
from kvcheck.memory.overrun import Table, watch
from kvcheck.run.outside import note_sender
folder = Path(sys.argv[1])
faulthandler.enable()
note_sender(folder)
if len(sys.argv) > 2:
    watch(folder, Table("fenced_end", "end", ()))
print("ready", flush=True)
"""
#: What each process does once it is ready.
BUSY = "while True: sum([number * 1.5 for number in range(100)])"
SLEEPS = "time.sleep(60)"
FAULTS = "ctypes.string_at(0)"
KILLS_ITSELF = "os.kill(os.getpid(), signal.SIGSEGV)"


def _process(folder: Path, does: str, *more: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + does, str(folder), *more],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.parametrize("more", [(), ("fenced",)])
@pytest.mark.parametrize("does", [BUSY, SLEEPS])
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS])
def test_a_signal_that_somebody_sends_is_noted_and_ends_the_process(
    does: str, number: int, more: tuple[str, ...], tmp_path: Path
) -> None:
    """As it would have, with the stack that faulthandler prints; no fence is blamed for it."""
    process = _process(tmp_path, does, *more)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -number
    assert (tmp_path / SENDER).exists()
    assert "Current thread" in err
    assert not more or (tmp_path / FAULT).read_bytes() == b""


@pytest.mark.parametrize("more", [(), ("fenced",)])
@pytest.mark.parametrize("does", [FAULTS, KILLS_ITSELF])
def test_what_a_process_does_itself_is_its_own(does: str, more: tuple[str, ...], tmp_path: Path) -> None:
    """An instruction that fails, and a signal that it sends to itself."""
    process = _process(tmp_path, does, *more)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGSEGV
    assert not (tmp_path / SENDER).exists()
    assert "Current thread" in err
    assert not more or (tmp_path / FAULT).read_bytes() == (b"0 is read" if does == FAULTS else b"")


def test_an_end_is_from_outside_where_no_kernel_ends_so(tmp_path: Path) -> None:
    """By a signal that nobody's mistakes raise; by one that another process sent; and before the case had begun."""
    assert not killed_from_outside(None, tmp_path)
    assert killed_from_outside(signal.SIGABRT, tmp_path)
    (tmp_path / STAGE).touch()
    assert not killed_from_outside(signal.SIGABRT, tmp_path)
    assert killed_from_outside(signal.SIGTERM, tmp_path)
    assert not killed_from_outside(signal.SIGSEGV, tmp_path)
    (tmp_path / SENDER).touch()
    assert killed_from_outside(signal.SIGSEGV, tmp_path)


def test_a_stopped_process_is_seen() -> None:
    """And one that runs, and one that is gone, are not."""
    process = subprocess.Popen(["sleep", "60"])  # noqa: S607 - any process
    try:
        assert not stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: stopped(process.pid))
    finally:
        process.kill()
        process.wait()
    assert not stopped(process.pid)


@pytest.mark.parametrize(("kills", "confirmed"), [(1, True), (2, None)])
def test_a_fresh_interpreter_that_somebody_kills_runs_once_more(
    kills: int, confirmed: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed again it says nothing of the case, whose own result stands; and that is told."""
    folder = tmp_path / "0"
    folder.mkdir()
    left = iter([_killed()] * kills + [Ended(0, None, signal.SIGSEGV, 0.1, timed_out=False)])

    def run_fresh(_: object, jobs: list[Job], *, at_a_time: int) -> list[Ended]:
        assert at_a_time == 1
        return [next(left) for _ in jobs]

    monkeypatch.setattr(confirm, "run_fresh", run_fresh)
    case = Case(tokens=6, heads=1, head_dim=8)
    result = msgspec.structs.replace(
        not_run(case, "crash", "killed by SIGSEGV"), process=ProcessVerdict(signal="SIGSEGV")
    )
    nursery = cast("Nursery", SimpleNamespace(jobs=1))
    job = Job(0, INFO.name, case, str(folder), 60.0)
    found = confirm.confirm(nursery, INFO, [job], {0: result}, expect_declared=False)[0]
    said = (
        "; not confirmed in a fresh interpreter: killed by SIGKILL in the child's own start"
        if confirmed is None
        else ""
    )
    assert (found.outcome, found.reason, found.cold_confirmed) == ("crash", result.reason + said, confirmed)


def _killed() -> Ended:
    return Ended(0, None, signal.SIGKILL, 0.1, timed_out=False, outside=True)


def test_a_process_is_continued_only_once_it_has_been_stopped_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that runs meanwhile begins anew; one that is gone needs nobody."""
    now = [0.0]
    monkeypatch.setattr("kvcheck.run.outside.time.monotonic", lambda: now[0])
    states = iter([True, False, True, True, True, True, True])
    sent: list[int] = []
    monkeypatch.setattr(outside, "stopped", lambda _: next(states))
    monkeypatch.setattr("kvcheck.run.outside.os.kill", lambda _, number: sent.append(number))
    waker = outside.Waker(1)
    seen = []
    for moment in (0, 4, 8, 12, 14, 15, 21):
        now[0] = float(moment)
        waker.look()
        seen.append(len(sent))
    assert seen == [0, 0, 0, 0, 1, 1, 2]
    assert set(sent) == {signal.SIGCONT}
