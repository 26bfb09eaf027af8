"""Nurseries and judges that are stopped from outside: a run goes on without them."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from kvcheck.cli.main import run
from kvcheck.run import feed, outside, pool
from kvcheck.run.journal import NAME
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import Job
from kvcheck.schema import Outcome

from .command import KERNELS, matrix, outcomes, reports_in, write_matrix
from .processes import children, command_line, wait_for


def _stop(module: str, out: Path) -> None:
    """SIGSTOP the first process of this one's that runs a module, once some case is done."""
    wait_for(lambda: sum(path.stat().st_size for path in out.glob(f"*/*/{NAME}")) > 1000)
    victim = next(pid for pid in children(os.getpid()) if module in command_line(pid))
    os.kill(victim, signal.SIGSTOP)


@pytest.mark.parametrize(("kills", "outcome"), [(1, "pass"), (2, "inconclusive")])
def test_a_nursery_that_dies_while_kvcheck_checks_itself_has_a_second(
    kills: int, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is made again; where that one dies too nothing is judged."""
    left = [None] * kills
    original = Nursery.submit

    def submit(nursery: Nursery, job: Job) -> None:
        if left:
            left.pop()
            nursery._process.kill()
            nursery._process.wait()
        original(nursery, job)

    monkeypatch.setattr(Nursery, "submit", submit)
    cases = write_matrix(tmp_path / "cases.toml", heads=[1, 2], tokens=1, head_dim=8)
    ran = matrix(tmp_path / "out", cases, "--target", KERNELS / "slow.py")
    assert outcomes(ran.report) == [outcome] * 2, ran.report.cases[0].reason


@pytest.mark.parametrize("module", ["kvcheck.run.nursery", "kvcheck.run.judge_worker"])
def test_a_process_that_stops_speaking_is_replaced(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No case is lost or passed unjudged; those that the process had are run again, or inconclusive."""
    monkeypatch.setattr(outside, "STOPPED", 600.0)
    monkeypatch.setattr(feed, "GRACE", 0.5)
    monkeypatch.setattr(feed, "JUDGE_LIMIT", 3.0)
    monkeypatch.setattr(feed, "LOOK", 0.1)
    cases = write_matrix(tmp_path / "cases.toml", heads=list(range(1, 13)), tokens=1, head_dim=8)
    stopper = threading.Thread(target=_stop, args=(module, tmp_path / "out"))
    stopper.start()
    status = run(
        ["matrix", str(cases), "--target", str(KERNELS / "slow.py"), "--device", "cpu", "-j", "1", "--timeout", "5",
         "--out", str(tmp_path / "out")]
    )  # fmt: skip
    stopper.join()
    (report,) = reports_in(tmp_path / "out").values()
    assert len(report.cases) == report.planned == 12
    ended = outcomes(report)
    assert set(ended) <= {"pass", "inconclusive"}
    assert ended.count("pass") >= 11
    assert status == (0 if ended.count("pass") == 12 else 3)


@pytest.mark.parametrize("module", ["kvcheck.run.nursery", "kvcheck.run.judge_worker"])
def test_a_process_that_is_stopped_is_continued(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Soon, long before anybody takes it for lost: every case passes."""
    monkeypatch.setattr(outside, "STOPPED", 0.5)
    monkeypatch.setattr(feed, "LOOK", 0.1)
    cases = write_matrix(tmp_path / "cases.toml", heads=list(range(1, 13)), tokens=1, head_dim=8)
    stopper = threading.Thread(target=_stop, args=(module, tmp_path / "out"))
    stopper.start()
    ran = matrix(tmp_path / "out", cases, "--target", KERNELS / "slow.py", "-j", 1)
    stopper.join()
    assert (ran.code, ran.report.summary) == (0, {"pass": 12})


def test_a_process_that_is_stopped_while_it_loads_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the target itself, even; and while kvcheck checks itself."""
    monkeypatch.setattr(outside, "STOPPED", 0.2)
    monkeypatch.setattr(pool, "LOOK", 0.1)
    text = (KERNELS / "slow.py").read_text(encoding="utf-8")
    (tmp_path / "stops.py").write_text(f"{text}\nimport os\nos.kill(os.getpid(), 19)\n", encoding="utf-8")
    (tmp_path / "right.py").write_bytes((KERNELS / "right.py").read_bytes())
    original = Nursery.submit

    def submit(nursery: Nursery, job: Job) -> None:
        original(nursery, job)
        os.kill(nursery._process.pid, signal.SIGSTOP)

    monkeypatch.setattr(Nursery, "submit", submit)
    cases = write_matrix(tmp_path / "cases.toml", heads=[1], tokens=1, head_dim=8)
    ran = matrix(tmp_path / "out", cases, "--target", tmp_path / "stops.py", "--load-timeout", 30)
    assert (ran.code, ran.report.summary) == (0, {"pass": 1})
