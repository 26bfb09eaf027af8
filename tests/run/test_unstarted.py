"""A machine that has no process to give, for a while or for good: no case fails for it."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from kvcheck.errors import KvcheckError, ReportError
from kvcheck.run import cold
from kvcheck.run.judges import Judges
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import Job
from kvcheck.schema import Case

from .command import KERNELS, matrix, outcomes, write_matrix

BUSY = BlockingIOError(11, "Resource temporarily unavailable")


@pytest.mark.parametrize(
    ("forks", "jobs", "inconclusive"),
    [("3:4", 1, 0), ("4:6", 1, 0), ("3:4", 3, 0), ("4:5", 3, 0), ("4:999999", 1, 5), ("3:999999", 3, 6)],
)
def test_a_case_without_a_process_waits_or_is_inconclusive(
    forks: str, jobs: int, inconclusive: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One asks the machine, two checks kvcheck itself; then come six cases.

    Where others run it waits for them; where none does it is tried twice.
    """
    monkeypatch.setenv("KVCHECK_TEST_FORKS", forks)
    cases = write_matrix(tmp_path / "cases.toml", tokens=64, heads=list(range(8, 14)), head_dim=128)
    ran = matrix(tmp_path / "out", cases, "--target", KERNELS / "forkless.py", "-j", jobs)
    found = Counter(outcomes(ran.report))
    assert found == Counter({"pass": 6 - inconclusive, "inconclusive": inconclusive}), ran.report.cases[0].reason
    assert ran.code == (3 if inconclusive else 0)
    for case in ran.report.cases:
        if case.outcome == "inconclusive":
            assert case.reason == "its process could not be started: Resource temporarily unavailable"


def test_a_fresh_interpreter_that_cannot_be_started_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its case is not confirmed, and nothing else happens to the run."""

    def none(*_: object) -> int:
        raise BUSY

    monkeypatch.setattr(cold, "start_fresh", none)
    with Nursery("store", Options(device="cpu", jobs=1)) as nursery:
        (ended,) = cold.run_fresh(nursery, [Job(3, "store", Case(), str(tmp_path), 5.0)], at_a_time=1)
    assert (ended.number, ended.outside, ended.unstarted) == (3, True, "Resource temporarily unavailable")


def test_a_nursery_or_a_judge_that_cannot_be_started_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second judge is done without."""

    def none(*_: object, **__: object) -> None:
        raise BUSY

    with Judges(2) as judges:
        (one,) = judges._workers
        monkeypatch.setattr(subprocess, "Popen", none)
        assert judges._more() is None
        assert judges._workers == [one]
    with pytest.raises(ReportError, match="the process that judges cannot be started: Resource"), Judges(1):
        pytest.fail("started")
    with pytest.raises(KvcheckError, match="the process that loads 'store' cannot be started: Resource"):
        Nursery("store", Options(device="cpu"))
