"""Cases that run in several processes: what differs between them is a finding."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvcheck.run.journal import NAME, _bodies
from kvcheck.run.repeated import with_repetition
from kvcheck.run.result import not_run
from kvcheck.schema import Case, CaseResult

from .command import KERNELS, matrix, write_matrix
from .test_resume import arguments, cut, journal_size, timeless

PASS = not_run(Case(), "pass", "")


def test_other_bytes_in_another_process_are_a_violation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either would pass alone. A store that is the same in three processes passes, and the report says three."""
    monkeypatch.setenv("KVCHECK_TEST_FIRST", str(tmp_path / "first"))
    one = write_matrix(tmp_path / "one.toml", tokens=[1], heads=1, head_dim=8)
    (case,) = matrix(tmp_path / "out", one, "--target", KERNELS / "fickle.py", "--repeat", 2).report.cases
    assert case.outcome == "violation"
    assert case.reason == "nondeterministic: process 2 stored other bytes than process 1, though both pass"
    (case,) = matrix(tmp_path / "later", one, "--target", KERNELS / "fickle.py", "--repeat", 3).report.cases
    assert (case.outcome, case.determinism.processes) == ("pass", 3)


def test_another_outcome_never_makes_it_better() -> None:
    """A failure stays what it was; what is unknown of a repetition is unknown of the case."""
    crash = not_run(Case(), "crash", "died")
    assert with_repetition(crash, PASS, 2) == crash
    found = with_repetition(PASS, crash, 3)
    assert (found.outcome, found.determinism.processes) == ("violation", 3)
    assert found.reason == "nondeterministic: passes in process 1, and in process 3 ends as crash (died)"
    unknown = with_repetition(PASS, not_run(Case(), "inconclusive", "no"), 2)
    assert (unknown.outcome, unknown.reason) == ("inconclusive", "process 2: no")
    silent = with_repetition(PASS, msgspec.structs.replace(crash, reason=""), 2)
    assert silent.reason == "nondeterministic: passes in process 1, and in process 2 ends as crash"


def test_a_run_that_is_cut_goes_on_with_the_processes_that_are_missing(tmp_path: Path) -> None:
    """Cut in the second of three processes: no case begins anew, and the report is that of a run nobody cut."""
    cases = write_matrix(tmp_path / "cases.toml", heads=list(range(1, 13)), tokens=1, head_dim=8)
    asked = (*arguments(cases, KERNELS / "slow.py"), "--repeat", 3)
    whole = matrix(tmp_path / "whole", *asked)
    assert {case.determinism.processes for case in whole.report.cases} == {3}
    cut(tmp_path / "cut", journal_size(whole.folder) // 2, *asked, cwd=tmp_path)
    (journal,) = (tmp_path / "cut").glob(f"*/*/{NAME}")
    left = {result.id: result.determinism.processes for result in _results(journal)}
    assert set(left.values()) <= {1, 2}
    assert 2 in left.values()
    assert len(left) == 12
    resumed = matrix(tmp_path / "cut", *asked, "--resume")
    assert resumed.err == "kvcheck: --resume: slow: 12 of 12 cases are taken over\n"
    assert timeless(resumed.report) == timeless(whole.report)
    added = [result.determinism.processes for result in _results(journal)][12:]
    assert sorted(added) == sorted([2] * list(left.values()).count(1) + [3] * 12)
    again = matrix(tmp_path / "cut", *asked, "--resume")
    assert again.report.cases == resumed.report.cases


def _results(journal: Path) -> list[CaseResult]:
    """Every record of a journal, those that stand for the same case too."""
    data = journal.read_bytes()
    key = next(_bodies(data, b""))
    return [msgspec.msgpack.decode(body, type=CaseResult) for body in _bodies(data[20 + len(key) :], key)]
