"""Building a report, and what a pass could have seen."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import msgspec
import pytest

import kvcheck
from kvcheck.report.build import ENVIRONMENT, SCHEMA, build
from kvcheck.report.observable import observable_counts, unobservable

from .samples import CRASH, FAULTS, INCONCLUSIVE, PASS, SEED, SIBLING, TARGET, UNSUPPORTED, report


def test_a_report_carries_what_it_was_built_from() -> None:
    """Schema, version, time in UTC to the second, counts, cases in their order."""
    made = report(PASS, SEED, planned=3)
    assert made.schema == SCHEMA == "kvcheck.report/1"
    assert made.kvcheck == kvcheck.__version__
    assert made.created == "2026-03-04T05:06:07Z"
    assert made.planned == 3
    assert made.summary == {"mismatch": 1, "pass": 1}
    assert made.cases == (PASS, SEED)
    assert made.unobservable == ("index-wrap", "graph-stale")


def test_times_are_written_in_utc_and_default_to_now() -> None:
    """A time of another zone is converted; without one the present is taken."""
    east = datetime(2026, 3, 4, 7, 0, tzinfo=timezone(timedelta(hours=2)))
    made = [
        build(
            (),
            planned=0,
            environment={},
            target=TARGET,
            arch="sm_90",
            execution="host",
            command="",
            faults=(),
            now=now,
        ).created
        for now in (east, None)
    ]
    assert made[0] == "2026-03-04T05:00:00Z"
    written = datetime.strptime(made[1], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    assert abs(written - datetime.now(timezone.utc)) < timedelta(seconds=5)


def test_an_environment_has_every_key() -> None:
    """What is not known is null, and further keys are kept."""
    made = build(
        (),
        planned=0,
        environment={"gpu": "A", "host": "b"},
        target=TARGET,
        arch="sm_90",
        execution="host",
        command="",
        faults=(),
    )
    assert list(made.environment) == [*ENVIRONMENT, "host"]
    assert made.environment["gpu"] == "A"
    assert made.environment["triton"] is None


def test_only_judged_cases_could_have_shown_a_fault() -> None:
    """A case that was not judged shows nothing, whatever it says of itself."""
    blind = [msgspec.structs.replace(case, observable=(0, 1, 2)) for case in (INCONCLUSIVE, UNSUPPORTED, CRASH)]
    assert observable_counts(FAULTS, blind) == {"sibling-pitch": 0, "dense-heads": 0, "index-wrap": 0, "graph-stale": 0}
    assert unobservable(FAULTS, [*blind, PASS]) == ("index-wrap", "graph-stale")


def test_a_fault_that_was_diagnosed_was_observable() -> None:
    """A crash that was diagnosed has shown its fault; a fault that the list lacks is passed over."""
    shown = msgspec.structs.replace(
        CRASH, diagnosis=(SIBLING, msgspec.structs.replace(SIBLING, fault="of another version"))
    )
    assert observable_counts(FAULTS, [shown])["sibling-pitch"] == 1
    assert observable_counts(FAULTS, [msgspec.structs.replace(SEED, observable=())])["sibling-pitch"] == 1


@pytest.mark.parametrize("index", [4, -1])
def test_an_index_outside_the_faults_is_refused(index: int) -> None:
    """A case that points outside the list is an error, not a wrong count."""
    with pytest.raises(ValueError, match="a1b2c3: observable points outside the 4 faults"):
        report(msgspec.structs.replace(PASS, observable=(0, index)))
