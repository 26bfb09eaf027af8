"""Failing cases in fresh interpreters: which are taken, and what comes of those that end otherwise there."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvcheck.run.confirm import MOST, chosen, confirmed
from kvcheck.run.result import not_run
from kvcheck.schema import Case, CaseResult, Diagnosis, Outcome, ProcessVerdict

from .command import KERNELS, Ran, matrix, reports_in, start, write_matrix
from .processes import is_running


def _result(outcome: Outcome, fault: str = "", *, ran: bool = True) -> CaseResult:
    diagnosis = (Diagnosis(fault, "v", 1, 1, "", {}),) if fault else ()
    process = ProcessVerdict(exit=0) if ran else ProcessVerdict()
    return msgspec.structs.replace(not_run(Case(), outcome, "why"), diagnosis=diagnosis, process=process)


def test_the_first_of_each_group_is_taken() -> None:
    """Groups are of equal outcome and first fault; passes, timeouts and what never ran are not failing."""
    results = {
        9: _result("mismatch", "token-lost"),
        1: _result("pass"),
        2: _result("timeout"),
        3: _result("mismatch", "sibling-pitch"),
        4: _result("mismatch", "sibling-pitch"),
        5: _result("crash", ran=False),
        6: _result("violation"),
    }
    assert chosen(results) == [3, 6, 9]
    many = {number: _result("mismatch", f"fault-{number}") for number in range(9)}
    assert chosen(many) == list(range(MOST))


@pytest.mark.parametrize(
    ("outcome", "fresh", "after", "cold"),
    [
        ("mismatch", "mismatch", "mismatch", True),
        ("mismatch", "pass", "mismatch", False),
        ("crash", "mismatch", "crash", False),
        ("xfail", "xfail", "xfail", True),
        ("xfail", "pass", "violation", False),
    ],
)
def test_a_result_never_gets_better(outcome: Outcome, fresh: Outcome, after: Outcome, *, cold: bool) -> None:
    """What passes in a fresh interpreter has failed all the same, and the reason says so."""
    result = confirmed(_result(outcome), _result(fresh))
    assert (result.outcome, result.cold_confirmed) == (after, cold)
    assert ("order-dependent or nondeterministic" in result.reason) == (not cold)


def test_a_failure_of_forks_alone_is_a_finding(tmp_path: Path) -> None:
    """A kernel that is wrong only where it was loaded long before it is called: reported, with both outcomes."""
    cases = write_matrix(tmp_path / "seeds.toml", seed=[0, 1, 2], tokens=1, heads=1, head_dim=8)
    ran = matrix(tmp_path / "out", cases, "--target", KERNELS / "forks_alone.py")
    assert ran.code == 1
    assert [case.outcome for case in ran.report.cases] == ["crash"] * 3
    assert [case.cold_confirmed for case in ran.report.cases] == [False, None, None]
    assert "in a fresh interpreter this case ends as pass" in ran.report.cases[0].reason


def test_an_import_that_leaves_a_thread_gets_fresh_interpreters(tmp_path: Path) -> None:
    """Cases pass, each in a process that has imported the target itself; the report says why."""
    cases = write_matrix(tmp_path / "seeds.toml", seed=[0, 1], tokens=1, heads=1, head_dim=8)
    ran = matrix(tmp_path / "out", cases, "--target", KERNELS / "threaded.py")
    assert [case.outcome for case in ran.report.cases] == ["pass"] * 2, ran.report.cases[0].reason
    assert ran.report.environment["fresh_interpreters"] == "importing the target left 1 more thread running"


def test_a_kernel_that_kills_its_parent_in_a_fresh_interpreter_ends_no_run(tmp_path: Path) -> None:
    """The case fails as it did, and the reason says that nothing could be confirmed, and why."""
    cases = write_matrix(tmp_path / "seeds.toml", seed=[0, 1], tokens=1, heads=1, head_dim=8)
    ran = _apart(tmp_path, cases)
    assert (ran.code, ran.report.summary) == (1, {"mismatch": 2}), ran.err
    first = ran.report.cases[0]
    assert first.cold_confirmed is None
    assert first.reason.endswith("not confirmed in a fresh interpreter: killed by SIGKILL in launch 1")


def test_what_a_fresh_interpreter_leaves_behind_ends_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that has left its session is found by the mark it was started with."""
    monkeypatch.setenv("KVCHECK_TEST_PIDS", str(tmp_path / "pid"))
    cases = write_matrix(tmp_path / "seeds.toml", tokens=[2], heads=1, head_dim=8)
    ran = _apart(tmp_path, cases)
    assert (ran.code, [case.cold_confirmed for case in ran.report.cases]) == (1, [True]), ran.err
    pid = int((tmp_path / "pid").read_text(encoding="ascii"))
    assert not is_running(pid)


def _apart(folder: Path, cases: Path) -> Ran:
    """Run in a process of its own, which a target may kill without ending the tests."""
    process = start("matrix", cases, "--target", KERNELS / "assassin.py", "--device", "cpu", "--out", "out", cwd=folder)
    out, err = process.communicate(timeout=120)
    return Ran(process.returncode, out, err, reports_in(folder / "out"), folder / "out")
