"""The committed reports hold what is said of `store`, and the check of it can fail."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvcheck.report.read import read
from kvcheck.schema import CaseResult, Digest, Report

from .store import gather, logical_input, main, unlike
from .telling import matrix_reports

REPORTS = Path(__file__).parents[2] / "reports"
OTHER = Digest("0" * 32, "1" * 32)


@pytest.fixture(scope="module")
def seed() -> Report:
    """The seed matrix on an H200: 48 cases that passed."""
    return read(REPORTS / "sm_90-native" / "store")


def _with(report: Report, number: int, **fields: object) -> Report:
    """A report with other fields in one of its cases."""
    cases: list[CaseResult] = list(report.cases)
    cases[number] = msgspec.structs.replace(cases[number], **fields)
    return msgspec.structs.replace(report, cases=tuple(cases))


def test_the_committed_reports_have_no_failure_and_one_digest_an_input() -> None:
    """All that is committed of `store`: every planned case passed, with the same bytes wherever it ran or lay."""
    found = gather(list(matrix_reports(REPORTS)))
    assert found.problems(least=1200) == []
    assert found.in_many_forms() > 0


def test_the_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 0 where all holds; 1, and a line, where there are too few cases."""
    folder = str(REPORTS / "sm_90-native")
    assert main(folder, "40") == 0
    assert "all hold" in capsys.readouterr().out
    assert main(folder, "2000") == 1
    assert "missed: 48 unlike cases compared codes; expected 2000 or more" in capsys.readouterr().out


@pytest.mark.parametrize("outcome", ["mismatch", "violation", "crash", "inconclusive", "refused", "unsupported"])
def test_whatever_is_no_pass_is_missed(seed: Report, outcome: str) -> None:
    """One case of 48."""
    (line,) = gather([_with(seed, 7, outcome=outcome, reason="so")]).problems(1)
    assert line == f"GPU sm_90-native: case {seed.cases[7].id} is {outcome}: so"


def test_a_case_that_did_not_run_is_missed(seed: Report) -> None:
    """Fewer cases than were planned."""
    (line,) = gather([msgspec.structs.replace(seed, planned=49)]).problems(1)
    assert line == "GPU sm_90-native: 48 of 49 planned cases"


def test_other_bytes_on_another_machine_are_missed(seed: Report) -> None:
    """The case, and both places; and that its input has two digests."""
    cpu = msgspec.structs.replace(seed, execution="interpreted")
    assert gather([seed, cpu]).problems(1) == []
    assert (gather([seed]).in_two_places(), gather([seed, cpu]).in_two_places()) == (0, 48)
    first, second = gather([seed, _with(cpu, 7, digest=OTHER)]).problems(1)
    assert first.startswith(f"case {seed.cases[7].id}: ")
    assert first.endswith("in GPU sm_90-native; 00000000/11111111 in CPU sm_90-interpreted")
    assert second.startswith("equal inputs: ")


def test_other_bytes_in_another_view_or_layout_are_missed(seed: Report) -> None:
    """The seed matrix has each input in four pairs of views and two layouts: one digest each."""
    found = gather([seed])
    assert (len(found.by_input), found.in_many_forms()) == (6, 6)
    (line,) = gather([_with(seed, 7, digest=OTHER)]).problems(1)
    assert line.startswith("equal inputs: ")
    assert f"00000000/11111111 in {seed.cases[7].id}" in line


def test_other_seeds_and_scales_that_nobody_gives_are_no_other_cases(seed: Report) -> None:
    """The same geometry with other numbers counts once; but its bytes may be others."""
    axes = seed.cases[0].axes
    again = {**axes, "seed": 5}
    assert unlike(axes) == unlike(again) == unlike({**axes, "k_scale": "1"}) != unlike({**axes, "heads": 4})
    assert logical_input(axes) != logical_input(again)


def test_other_targets_say_nothing_of_store(seed: Report) -> None:
    """A specimen's failures are its own."""
    specimen = read(REPORTS / "sm_90-native" / "specimen-shared-pitch")
    assert gather([seed, specimen]).reports == {"GPU sm_90-native": 48}
