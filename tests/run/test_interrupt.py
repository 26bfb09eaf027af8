"""A run that is stopped: what it has done is written, and nothing goes on without it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .command import KERNELS, reports_in, start, write_matrix
from .processes import children, command_line, is_running, wait_for
from .test_interrupts import press


@dataclass(frozen=True)
class Hanging:
    """A run of five cases with a hanging one under way, those before it done."""

    process: subprocess.Popen[str]
    nursery: int
    case: int
    left_behind: tuple[int, ...]
    """Processes that cases have started in sessions of their own."""
    out: Path


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    """Start the run and wait until it hangs; end whatever a failing test leaves of it."""
    pids = tmp_path / "pids"
    monkeypatch.setenv("KVCHECK_TEST_PIDS", str(pids))
    cases = write_matrix(tmp_path / "tokens.toml", tokens=[1, 14, 9, 22, 23], heads=1, head_dim=8)
    process = start(
        "matrix", cases, "--target", f"{KERNELS / 'misbehaving.py'}::misbehaving", "--device", "cpu", "-j", 1,
        "--timeout", 600, "--out", "out", cwd=tmp_path,
    )  # fmt: skip

    def noted() -> list[int]:
        found = pids.read_text(encoding="ascii").splitlines() if pids.exists() else []
        # A case is judged while the next one runs: those before the hanging one are done when they are in the journal.
        done = sum(journal.read_bytes().count(b"outcome") for journal in (tmp_path / "out").rglob("journal"))
        return [int(line) for line in found] if len(found) == 4 and done == 2 else []

    with process:
        try:
            *escaped, case = wait_for(noted)
            (nursery,) = (pid for pid in children(process.pid) if "kvcheck.run.nursery" in command_line(pid))
            yield Hanging(process, nursery, case, tuple(escaped), tmp_path / "out")
        finally:
            process.kill()
    for pid in (nursery, case, *escaped):
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("times", "number"),
    [(1, signal.SIGINT), (2, signal.SIGINT), (9, signal.SIGINT), (1, signal.SIGTERM), (2, signal.SIGHUP)],
)
def test_ctrl_c_ends_everything_and_writes_what_there_is(times: int, number: int, hanging: Hanging) -> None:
    """Exit 130, however often it is pressed; the report holds what was done, and says how many cases were planned."""
    out, err = press(hanging.process, times, number)
    assert hanging.process.returncode == 130
    assert err == ""
    assert "stopped with Ctrl-C" in out
    (report,) = reports_in(hanging.out).values()
    assert report.planned == 5
    assert [(case.axes["tokens"], case.outcome) for case in report.cases] == [(1, "pass"), (14, "pass")]
    wait_for(lambda: not any(is_running(pid) for pid in (hanging.nursery, hanging.case, *hanging.left_behind)))


def test_a_run_that_is_killed_leaves_no_case_running(hanging: Hanging) -> None:
    """SIGKILL of the command ends its nursery and judges, and the case that hangs and that nobody waits for."""
    beside = children(hanging.process.pid)
    assert len(beside) == 2  # the nursery and a judge
    hanging.process.kill()
    assert hanging.process.wait(timeout=60) == -signal.SIGKILL
    wait_for(lambda: not any(is_running(pid) for pid in (hanging.case, *beside)))
