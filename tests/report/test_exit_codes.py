"""Exit codes, over every combination of outcomes."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.report import exit_codes
from kvcheck.report.exit_codes import exit_code
from kvcheck.schema import CaseResult, CodesVerdict, Outcome, ScalesVerdict

from .samples import PASS, REFUSED, UNSUPPORTED, XFAIL, report

CASES = st.builds(
    lambda identifier, outcome, compared, codes, scales: msgspec.structs.replace(
        PASS,
        id=identifier,
        outcome=outcome,
        codes=CodesVerdict(compared=compared, legal=codes),
        scales=ScalesVerdict(legal=scales),
    ),
    identifier=st.uuids().map(str),
    outcome=st.sampled_from(get_args(Outcome)),
    compared=st.sampled_from([0, 1, 6144]),
    codes=st.sampled_from([0, 0, 2]),
    scales=st.sampled_from([0, 0, 1]),
)


def expected(cases: list[CaseResult], missing: int, *, strict: bool) -> int:
    """The exit code by the rule's own words."""
    found = {case.outcome for case in cases}
    if found & {"mismatch", "violation", "crash", "timeout", "xpass"}:
        return 1
    if strict and ("refused" in found or any(case.codes.legal or case.scales.legal for case in cases)):
        return 1
    if "inconclusive" in found or missing:
        return 3
    if all(case.codes.compared == 0 for case in cases):
        return 4
    return 0


@given(st.lists(CASES, max_size=5), st.integers(0, 2), st.booleans())
def test_one_report_earns_the_code_of_the_rule(cases: list[CaseResult], missing: int, strict: bool) -> None:
    """Any set of outcomes, with and without missing cases and --strict."""
    made = report(*cases, planned=len(cases) + missing)
    assert exit_code(made, strict=strict) == expected(cases, missing, strict=strict)


@given(st.lists(st.lists(CASES, max_size=3), max_size=3), st.booleans())
def test_several_reports_take_the_first_code_of_the_precedence(groups: list[list[CaseResult]], strict: bool) -> None:
    """Each report answers for itself; the run takes the code that comes first in 1, 3, 4, 0."""
    codes = [expected(cases, 0, strict=strict) for cases in groups] or [4]
    wanted = next(code for code in (1, 3, 4, 0) if code in codes)
    assert exit_code([report(*cases) for cases in groups], strict=strict) == wanted


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_each_outcome_alone(outcome: Outcome) -> None:
    """What a run of one compared case of each outcome exits with, with and without --strict."""
    made = report(msgspec.structs.replace(PASS, outcome=outcome))
    plain = {"pass": 0, "xfail": 0, "unsupported": 0, "refused": 0, "inconclusive": 3}.get(outcome, 1)
    assert exit_code(made) == plain
    assert exit_code(made, strict=True) == (1 if outcome == "refused" else plain)


def test_a_target_that_compared_nothing_is_not_hidden_by_one_that_passed() -> None:
    """An engine whose cases are all unsupported leaves the run at 4."""
    assert exit_code([report(PASS), report(UNSUPPORTED)]) == exit_codes.NOTHING_COMPARED
    assert exit_code(report(PASS, UNSUPPORTED)) == exit_codes.PASSED


def test_a_case_that_is_there_twice_does_not_stand_in_for_a_missing_one() -> None:
    """Two copies of one case are one case of the two that were planned."""
    assert exit_code(report(PASS, PASS, planned=2)) == exit_codes.INCONCLUSIVE


def test_the_run_may_have_planned_more_than_its_reports_know() -> None:
    """A target that never got as far as a report leaves the run incomplete."""
    assert exit_code([report(PASS)], planned=2) == exit_codes.INCONCLUSIVE
    assert exit_code([report(PASS)], planned=1) == exit_codes.PASSED
    assert exit_code([], planned=1) == exit_codes.INCONCLUSIVE
    assert exit_code([]) == exit_codes.NOTHING_COMPARED


def test_strict_fails_on_refused_and_legal_only() -> None:
    """Unsupported and xfail stay fine under --strict."""
    assert exit_code(report(PASS, REFUSED)) == exit_codes.PASSED
    assert exit_code(report(PASS, REFUSED), strict=True) == exit_codes.FAILED
    assert exit_code(report(PASS, UNSUPPORTED, XFAIL), strict=True) == exit_codes.PASSED


@given(st.permutations(exit_codes.PRECEDENCE), st.integers(1, 6))
def test_combine_takes_the_first_of_the_precedence(codes: list[int], count: int) -> None:
    """Ctrl-C, then 2, 1, 3, 4, 0."""
    some = codes[:count]
    assert exit_codes.combine(some) == next(code for code in (130, 2, 1, 3, 4, 0) if code in some)


def test_combine_knows_its_codes_only() -> None:
    """A code of another program is an error; no code at all means that nothing was compared."""
    with pytest.raises(ValueError, match="not in tuple"):
        exit_codes.combine([0, 7])
    assert exit_codes.combine([]) == 4
    assert set(exit_codes.SENTENCES) == set(exit_codes.PRECEDENCE)
