"""What a run hands over beside its reports."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvcheck.errors import ReportError
from kvcheck.report.deliver import Wanted, deliver, wanted
from kvcheck.report.junit import junit
from kvcheck.report.write import write

from .samples import PASS, SEED, report

WORSE = msgspec.structs.replace(SEED, id=PASS.id)


def test_nothing_is_handed_over_unasked() -> None:
    """Exit code 0, no line, no file."""
    assert deliver([report(SEED)], Wanted(), {}) == (0, [])


def test_junit_is_written(tmp_path: Path) -> None:
    """The document of all reports."""
    assert deliver([report(SEED)], Wanted(junit=tmp_path / "j.xml"), {}) == (0, [])
    assert (tmp_path / "j.xml").read_bytes() == junit([report(SEED)])


def test_a_baseline_fails_what_got_worse_and_never_hides_a_failure() -> None:
    """1 where a case got worse, 0 where it did not; a target that it does not know is 3, and said."""
    code, told = deliver([report(WORSE)], Wanted(baseline=(report(PASS),)), {})
    assert code == 1
    assert told[0] == "specimen:shared-pitch on sm_90, native, against the baseline: 1 worse, 0 as before"
    assert deliver([report(PASS)], Wanted(baseline=(report(WORSE),)), {})[0] == 0
    code, told = deliver([report(PASS, arch="sm_89")], Wanted(baseline=(report(PASS),)), {})
    assert (code, told) == (
        3,
        ["specimen:shared-pitch on sm_89, native: the baseline has no such report, so nothing is said of what changed"],
    )
    assert deliver([], Wanted(baseline=(report(PASS),)), {})[0] == 0


def test_a_baseline_is_read_before_the_run(tmp_path: Path) -> None:
    """A report, its folder, or a folder of reports; one that is not there is an error at once."""
    file = write(report(PASS), tmp_path / "a").json
    for path in (file, file.parent, tmp_path):
        assert wanted(baseline=path).baseline == (report(PASS),)
    assert wanted() == Wanted()
    with pytest.raises(ReportError, match="nowhere: no such file or folder"):
        wanted(baseline=tmp_path / "nowhere")


def test_in_github_actions_failures_are_annotated_and_summed_up(tmp_path: Path) -> None:
    """The variables that its runner sets decide, nothing else."""
    environ = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    code, told = deliver([report(SEED)], Wanted(), environ)
    assert code == 0
    assert told[0].startswith("::error title=kvcheck")
    assert (tmp_path / "summary").read_text().startswith("### kvcheck: ")


def test_a_run_of_some_cases_misses_none_of_the_others() -> None:
    """With --select or --shard only its own cases are held against the baseline; a whole run that lacks some is 3."""
    baseline = Wanted(baseline=(report(PASS, msgspec.structs.replace(PASS, id="2")),))
    assert deliver([report(PASS)], baseline, {})[0] == 3
    for option in ("--shard 1/2", "--shard=1/2", "--select a1b2c3"):
        assert deliver([report(PASS, command=f"kvcheck matrix {option}")], baseline, {})[0] == 0
        assert deliver([report(WORSE, command=f"kvcheck matrix {option}")], baseline, {})[0] == 1
