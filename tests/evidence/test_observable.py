"""The check of observability can fail, by each of its lines."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvcheck.report.read import read
from kvcheck.run.result import FORMS, SLUGS
from kvcheck.schema import CaseResult, Digest, Report

from .observable import Said, form_of, gather, main, row, table

SAID = Said(
    ("token-lost", "nondeterministic"), ("token-lost: two tokens at a time", "token-lost: b", "nondeterministic")
)
REPORTS = Path(__file__).parents[2] / "reports"


@pytest.fixture(scope="module")
def store() -> Report:
    """A report of `store`, with the forms that this kvcheck knows, none of which any case shows."""
    report = read(REPORTS / "sm_90-native" / "store")
    cases = [msgspec.structs.replace(case, observable=(), shown=()) for case in report.cases]
    return msgspec.structs.replace(report, faults=SLUGS, forms=FORMS, cases=tuple(cases))


def _case(store: Report, **fields: object) -> CaseResult:
    return msgspec.structs.replace(store.cases[0], **fields)


@pytest.mark.parametrize(
    ("outcome", "shown", "observable", "problem"),
    [
        ("mismatch", (0, 1), (0,), ""),
        ("mismatch", (0,), (), ""),
        ("pass", (1,), (), ""),
        ("xfail", (0,), (), ""),
        ("pass", (0,), (), "passes, although it would have shown the fault"),
        ("xpass", (0,), (), "passes, although it would have shown the fault"),
        ("crash", (1,), (), "fails, although nothing of the fault was to be seen"),
        ("mismatch", (0,), (0, 1), ""),
        ("pass", (1,), (0,), "is observable, and its form is not shown"),
    ],
)
def test_a_case_must_fail_where_its_form_is_shown_and_nowhere_else(
    store: Report, outcome: str, shown: tuple[int, ...], observable: tuple[int, ...], problem: str
) -> None:
    """Another form of the fault is no matter, unless all are said to show."""
    case = _case(store, outcome=outcome, shown=shown, observable=observable)
    found = row("odd-token-lost", "token-lost", SAID, [case])
    assert found.problems == ([f"odd-token-lost: case {case.id} {problem}"] if problem else [])


def test_chance_may_show_where_nobody_promised_it_and_a_compiler_asks_no_bytes(store: Report) -> None:
    """But where chance is said to show, it must."""
    failing, passing = _case(store, outcome="mismatch"), _case(store, shown=(2,))
    assert row("random-rounding", "nondeterministic", SAID, [failing]).problems == []
    assert row("exact-range", "compile-failure", SAID, [failing]).problems == []
    assert len(row("random-rounding", "nondeterministic", SAID, [passing]).problems) == 1


def test_cases_without_a_verdict_are_counted_apart(store: Report) -> None:
    """They are neither failures nor passes."""
    found = row("odd-token-lost", "token-lost", SAID, [_case(store, outcome="inconclusive", shown=(0,))])
    assert (found.unjudged, found.problems, sum(found.counts.values())) == (1, [], 0)


def test_a_form_that_the_report_does_not_know_is_no_evidence(store: Report) -> None:
    """A report of another kvcheck, or a name that has changed."""
    assert row("next-head", "head-mapping", SAID, store.cases).problems == [
        "next-head: nothing is known of the form 'head-mapping: the next head'"
    ]
    assert form_of("zero-row", "zero-row") == "zero-row"


def test_a_right_kernel_shows_the_same_and_leaves_the_same_bytes(store: Report) -> None:
    """Its case of the same id is held against the specimen's, where it passes and no slot is shared."""
    right = _case(store, shown=(1,))
    other = msgspec.structs.replace(right, digest=Digest("0" * 32, "1" * 32))
    assert row("odd-token-lost", "token-lost", SAID, [right], [right]).compared == 1
    (problem,) = row("odd-token-lost", "token-lost", SAID, [other], [right]).problems
    assert problem.endswith("passes with other bytes than a right kernel's")
    shared = msgspec.structs.replace(other, axes={**other.axes, "slots": "duplicates"})
    assert row("odd-token-lost", "token-lost", SAID, [shared], [right]).problems == []
    (problem,) = row("odd-token-lost", "token-lost", SAID, [right], [_case(store)]).problems
    assert problem.endswith("shows other forms than a right kernel's: ['token-lost: b']")


def test_reports_are_held_against_right_kernels_of_their_contract(store: Report) -> None:
    """The table has a row for each specimen."""
    shared = msgspec.structs.replace(store, target=msgspec.structs.replace(store.target, name="specimen:shared-pitch"))
    (found,) = gather([store, shared])
    assert (found.name, found.fault, found.compared, found.problems) == ("shared-pitch", "sibling-pitch", 48, [])
    assert list(table([found]))[2] == (
        "| shared-pitch | sibling-pitch: V by K's token pitch | 0 | 0 | 0 | 48 | 0 | 48 |"
    )
    other = msgspec.structs.replace(store, execution="interpreted")
    assert gather([other, shared])[0].compared == 0


def test_no_report_is_no_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 1, and a line."""
    assert main(str(tmp_path)) == 1
    assert "missed: no report of a specimen below" in capsys.readouterr().out
