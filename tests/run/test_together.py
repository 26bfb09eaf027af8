"""Cases run several to one process: what a kernel keeps shows, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvcheck.run.pool import NurseryLostError
from kvcheck.run.result import not_run
from kvcheck.run.several import Desk
from kvcheck.run.together import APART, LEAST, MOST, drawn
from kvcheck.schema import Case, CaseResult, CodesVerdict, Outcome

from .command import KERNELS, Ran, matrix, write_matrix


def _passing(case: Case, outcome: Outcome = "pass") -> CaseResult:
    return msgspec.structs.replace(not_run(case, outcome, ""), codes=CodesVerdict(compared=case.tokens * case.heads))


def test_those_that_fail_or_compare_nothing_or_need_a_process_are_not_drawn() -> None:
    """Each would change what is seen of others, or be changed for no fault of the kernel's."""
    good = [Case(seed=seed) for seed in range(3)]
    bad = [Case(seed=8), Case(seed=9), *(Case(layout=layout) for layout in sorted(APART))]
    results = [*map(_passing, good), _passing(bad[0], "crash"), not_run(bad[1], "pass", ""), *map(_passing, bad[2:])]
    assert sorted(drawn([*good, *bad], results)) == [0, 1, 2]


def test_a_few_are_drawn_the_same_every_time_small_and_unlike() -> None:
    """No more than there are for; of two seeds and many views each view comes before a second seed."""
    views = ["dense", "qkv", "kv"]
    cases = [Case(k_view=view, seed=seed, tokens=tokens) for tokens in (1, 2, 64) for view in views for seed in (0, 1)]
    picked = drawn(cases, [_passing(case) for case in cases])
    assert picked == drawn(cases, [_passing(case) for case in cases])
    assert len(picked) == LEAST
    assert {cases[number].tokens for number in picked} == {1, 2}
    assert {cases[number].k_view for number in picked} == set(views)
    many = [Case(seed=seed) for seed in range(1000)]
    assert len(set(drawn(many, [_passing(case) for case in many]))) == MOST
    assert drawn(cases[:1], [_passing(cases[0])]) == [0]
    assert drawn([], []) == []


def _line(ran: Ran) -> str:
    """What a run printed, in one line."""
    return " ".join(ran.out.split())


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run of the kernels that keep something, and of one that keeps nothing and raises for some cases."""
    folder = tmp_path_factory.mktemp("together")
    cases = write_matrix(
        folder / "cases.toml", v_view=["dense", "qkv"], seed=[0, 1], tokens=[2, 3], heads=2, head_dim=8
    )
    return matrix(folder / "out", cases, "--target", KERNELS / "remembers.py")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("first-strides", "in one process it ends as mismatch: "),
        ("first-scales", "in one process it ends as mismatch: "),
        ("first-shape", "in one process it ends as crash: exited with status 3 in launch 1"),
    ],
)
def test_a_kernel_that_keeps_something_is_found(ran: Ran, target: str, says: str) -> None:
    """Every case passes by itself; behind another, whose id the finding names, it does not."""
    report = ran.reports[target]
    (found,) = report.together
    bad = [case for case in report.cases if case.outcome != "pass"]
    assert found.unlike
    assert {case.id for case in bad} == set(found.unlike)
    assert ({case.outcome for case in bad}, ran.code) == ({"violation"}, 1)
    ids = {case.id for case in report.cases}
    for case in bad:
        (diagnosis,) = case.diagnosis
        assert diagnosis.fault == "order-dependent"
        assert says in diagnosis.says
        assert set(str(diagnosis.evidence["before"]).split(", ")) <= ids - {case.id}
    assert "ended otherwise; first: " in _line(ran)


def test_the_first_finding_names_the_one_case_that_does_it(ran: Ran) -> None:
    """The one before it of other strides."""
    report = ran.reports["first-strides"]
    axes = {case.id: case.axes for case in report.cases}
    first = report.together[0].unlike[0]
    (diagnosis,) = next(case for case in report.cases if case.id == first).diagnosis
    before = str(diagnosis.evidence["before"])
    assert axes[before]["v_view"] != axes[first]["v_view"]


def test_a_kernel_that_keeps_nothing_is_not_blamed_though_some_of_its_cases_crash(ran: Ran) -> None:
    """Cases that crash by themselves share no process."""
    report = ran.reports["nothing-kept"]
    assert report.summary == {"crash": 4, "pass": 4}
    (found,) = report.together
    assert (found.cases, found.processes, found.unlike, found.not_run) == (3, 2, (), "")
    assert "3 passing cases also ran behind others, in 2 processes of several and shuffled order" in _line(ran)


def test_where_too_few_pass_the_report_says_that_none_ran(tmp_path: Path) -> None:
    """One case has no other to run behind."""
    cases = write_matrix(tmp_path / "cases.toml", tokens=[2, 3], heads=1, head_dim=8)
    ran = matrix(tmp_path / "out", cases, "--target", f"{KERNELS / 'remembers.py'}::nothing-kept")
    assert ran.report.together[0].not_run == "fewer than two cases pass that could share a process"
    assert "No cases were run several to one process: fewer than two cases pass" in _line(ran)


def test_a_nursery_that_dies_meanwhile_changes_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was seen, and the report says so."""

    def dies(_: Desk, sequences: object) -> None:
        assert sequences
        raise NurseryLostError

    monkeypatch.setattr(Desk, "run", dies)
    cases = write_matrix(tmp_path / "cases.toml", tokens=[3, 4], heads=1, head_dim=8)
    ran = matrix(tmp_path / "out", cases, "--target", f"{KERNELS / 'remembers.py'}::nothing-kept")
    assert (ran.code, ran.report.summary) == (0, {"pass": 2})
    assert ran.report.together[0].not_run == "the process that runs the cases died"
