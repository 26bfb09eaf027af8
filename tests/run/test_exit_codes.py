"""The exit code of whole runs; those of seeds, broken kernels, bad input and Ctrl-C are tested beside them."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from kvcheck.judge.judge import judge
from kvcheck.schema import Emission, Verdict

from .command import KERNELS, matrix, outcomes, write_matrix


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """Two small cases."""
    return write_matrix(tmp_path / "two.toml", tokens=[2, 3], heads=1, head_dim=8)


def _target(name: str) -> str:
    return f"{KERNELS / 'careless.py'}::{name}"


def test_a_run_that_compared_nothing_exits_4(cases: Path, tmp_path: Path) -> None:
    """Two refusals are no pass."""
    ran = matrix(tmp_path / "out", cases, "--target", _target("refuses-all"))
    assert (ran.code, outcomes(ran.report)) == (4, ["refused", "refused"])


def test_strict_fails_on_what_is_only_legal(cases: Path, tmp_path: Path) -> None:
    """The same cases pass, and the run exits 1, where it would exit 0."""
    ran = matrix(tmp_path / "out", cases, "--target", _target("legal"), "--strict")
    assert (ran.code, outcomes(ran.report)) == (1, ["pass", "pass"])


def test_a_case_that_kvcheck_cannot_judge_is_inconclusive_and_exits_3(
    cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake in the judge costs the case, never the run; it reads as kvcheck's own and is no pass."""
    judged = []

    def breaks(emission: Emission) -> Verdict:
        judged.append(emission.case.tokens)
        if len(judged) == 3:  # the reference store, the first case, and then this one
            raise IndexError("a mistake")
        return judge(emission)

    monkeypatch.setattr("kvcheck.run.result.judge", breaks)
    monkeypatch.setattr("kvcheck.run.command.Judges", lambda _: contextlib.nullcontext())  # judge in this process
    ran = matrix(tmp_path / "out", cases, "--target", _target("right"), "-j", 1)
    assert ran.code == 3
    assert outcomes(ran.report) == ["pass", "inconclusive"]
    last = ran.report.cases[-1]
    assert last.reason == "kvcheck could not judge this emission: IndexError: a mistake"
    assert "breaks" in (last.process.error or "")
    assert last.codes.compared == 0


def test_a_reference_that_fails_judges_no_target(cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where kvcheck's own store is found wrong, nothing is said of the target's."""
    monkeypatch.setattr("kvcheck.run.result.judge", lambda _: Verdict("mismatch", "3 codes wrong"))
    ran = matrix(tmp_path / "out", cases, "--target", _target("right"))
    assert ran.code == 3
    assert outcomes(ran.report) == ["inconclusive", "inconclusive"]
    assert {case.reason for case in ran.report.cases} == {
        "kvcheck's own reference store fails on this placement, so nothing is said of the target: 3 codes wrong"
    }
