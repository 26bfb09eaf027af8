"""Nurseries and judges that are stopped from outside: a run goes on without them."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from kvcheck.cli.main import run
from kvcheck.run import feed
from kvcheck.run.journal import NAME

from .command import KERNELS, reports_in, write_matrix
from .processes import children, command_line, wait_for


def _stop(module: str, out: Path) -> None:
    """SIGSTOP the first process of this one's that runs a module, once some case is done."""
    wait_for(lambda: sum(path.stat().st_size for path in out.glob(f"*/*/{NAME}")) > 1000)
    victim = next(pid for pid in children(os.getpid()) if module in command_line(pid))
    os.kill(victim, signal.SIGSTOP)


@pytest.mark.parametrize("module", ["kvcheck.run.nursery", "kvcheck.run.judge_worker"])
def test_a_process_that_stops_speaking_is_replaced(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No case is lost or passed unjudged; those that the process had are run again, or inconclusive."""
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
    outcomes = [case.outcome for case in report.cases]
    assert set(outcomes) <= {"pass", "inconclusive"}
    assert outcomes.count("pass") >= 11
    assert status == (0 if outcomes.count("pass") == 12 else 3)
