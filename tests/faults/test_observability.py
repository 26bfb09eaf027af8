"""What a pass could have seen: a specimen fails exactly where its fault is said to be observable."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kvcheck.run.result import SLUGS
from kvcheck.schema import Case, CaseResult

from .running import default, run_file

#: Each specimen, and the fault that it declares.
SPECIMENS = {"specimen:shared-pitch": "sibling-pitch"}


def _both(specimen: str, cases: Sequence[Case]) -> list[tuple[CaseResult, CaseResult]]:
    """Each case as the specimen left it, and as the right kernel did."""
    (bad,) = run_file(specimen, {specimen: cases}).values()
    (right,) = run_file("store", {"store": cases}).values()
    return list(zip(bad, right, strict=True))


def _assert_observable_where_it_fails(specimen: str, cases: Sequence[Case]) -> int:
    """Fail unless the specimen fails just where its fault is observable, of its run and of the right kernel's.

    Where it is not, the specimen's bytes must be the right kernel's; but for slots that tokens share, which may hold
    the row of another of them. Returns the number of failures.
    """
    fault = SLUGS.index(SPECIMENS[specimen])
    failed = 0
    for bad, right in _both(specimen, cases):
        assert right.outcome == "pass"
        fails = bad.outcome != "pass"
        assert (bad.id, fault in bad.observable, fault in right.observable) == (bad.id, fails, fails)
        if fails or bad.axes["slots"] != "duplicates":
            assert (bad.id, bad.digest == right.digest) == (bad.id, not fails)
        failed += fails
    return failed


@pytest.mark.parametrize("specimen", SPECIMENS)
def test_a_specimen_fails_where_its_fault_is_observable_and_nowhere_else(specimen: str) -> None:
    """Over a sample of the default matrix; where it passes its digests are the right kernel's."""
    cases = [case for case in default() if case.tokens][::14]
    assert 3 < _assert_observable_where_it_fails(specimen, cases) < len(cases) - 3


@pytest.mark.exhaustive
@pytest.mark.parametrize("specimen", SPECIMENS)
def test_over_all_of_the_default_matrix(specimen: str) -> None:
    """Every case of it: minutes."""
    assert _assert_observable_where_it_fails(specimen, default()) > 100
