"""The order of outcomes."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.report import outcomes
from kvcheck.schema import Outcome

from .samples import EVERY, PASS, SEED

ALL: tuple[Outcome, ...] = get_args(Outcome)


def test_every_outcome_has_a_place() -> None:
    """The order names each outcome of the schema once, in the order that reports promise."""
    assert sorted(outcomes.ORDER) == sorted(ALL)
    assert outcomes.ORDER == (
        "crash",
        "timeout",
        "mismatch",
        "xpass",
        "violation",
        "inconclusive",
        "refused",
        "unsupported",
        "xfail",
        "pass",
    )


@given(st.lists(st.sampled_from(ALL), min_size=1))
def test_the_worst_is_first_in_the_order(found: list[Outcome]) -> None:
    """`worst` takes the outcome that comes first in the order."""
    assert outcomes.worst(found) == next(outcome for outcome in outcomes.ORDER if outcome in found)


def test_nothing_has_no_worst() -> None:
    """No outcome at all is an error, not a pass."""
    with pytest.raises(ValueError, match="empty"):
        outcomes.worst([])


def test_counts_are_worst_first_and_never_zero() -> None:
    """Only outcomes that occurred are counted, worst first."""
    assert list(outcomes.count(EVERY).items()) == [
        ("crash", 2),
        ("timeout", 1),
        ("mismatch", 1),
        ("xpass", 1),
        ("violation", 1),
        ("inconclusive", 1),
        ("refused", 1),
        ("unsupported", 1),
        ("xfail", 1),
        ("pass", 2),
    ]
    assert list(outcomes.count([PASS, SEED])) == ["mismatch", "pass"]
