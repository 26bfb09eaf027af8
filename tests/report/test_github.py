"""What GitHub Actions is told."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvcheck.errors import ReportError
from kvcheck.report.github import SUMMARY_BYTES, add_summary, is_github, summary, workflow_commands
from kvcheck.report.markdown import markdown
from kvcheck.schema import CodesVerdict, CompileFact, ProcessVerdict

from .samples import CRASH, INCONCLUSIVE, PASS, SEED, TARGET, UNSUPPORTED, report


def test_each_group_of_failures_is_an_error() -> None:
    """The group, its sentence and the command that repeats it, on one line; commas and colons escaped in the title."""
    assert workflow_commands([report(PASS, SEED)], {}) == [
        (
            "::error title=kvcheck specimen%3Ashared-pitch on sm_90%2C native::mismatch, sibling-pitch in V, 1 case: V "
            "is read with K's pitch: 1152 elements from row to row instead of 384.%0Arepeat: kvcheck matrix --target "
            "specimen:shared-pitch --arch sm_90 --select 3fa9c1 --out repeat"
        )
    ]
    assert workflow_commands([report(PASS)], {}) == []


def test_what_could_not_be_judged_is_a_warning_and_what_strict_fails_an_error() -> None:
    """A run that exits 3 or 4 has no failure to show, and must not look green."""
    title = "title=kvcheck specimen%3Ashared-pitch on sm_90%2C native"
    assert workflow_commands([report(PASS, INCONCLUSIVE)], {}) == [
        f"::warning {title}::1 of 2 cases inconclusive, none failed"
    ]
    assert workflow_commands([report(UNSUPPORTED)], {}) == [f"::warning {title}::nothing was compared"]
    legal = msgspec.structs.replace(PASS, codes=CodesVerdict(6144, legal=1))
    assert workflow_commands([report(legal)], {}) == []
    assert workflow_commands([report(legal)], {}, strict=True) == [f"::error {title}::1 of 1 case failed"]


def test_ten_errors_are_shown_and_the_others_counted() -> None:
    """As many as GitHub shows."""
    cases = [msgspec.structs.replace(CRASH, id=f"c{n}", process=ProcessVerdict(error="E" * (n + 1))) for n in range(14)]
    lines = workflow_commands([report(*cases)], {})
    assert len(lines) == 10
    assert lines[-1] == "::error title=kvcheck::5 more groups of failures: see the summary"


def test_nothing_in_a_string_ends_the_command() -> None:
    """A line feed or a percent sign from a target is data."""
    bad = msgspec.structs.replace(
        SEED, diagnosis=(msgspec.structs.replace(SEED.diagnosis[0], says="a%0A\n::set-env::b"),)
    )
    (line,) = workflow_commands([report(bad)], {})
    assert "\n" not in line
    assert "a%250A ::set-env::b" in line


def test_the_summary_is_the_markdown_of_every_report_that_fits(tmp_path: Path) -> None:
    """Appended to what other steps wrote; without the variable nothing is done."""
    one, two = report(PASS), report(SEED)
    assert summary([one, two]) == f"{markdown(one)}\n{markdown(two)}\n"
    file = tmp_path / "summary.md"
    file.write_text("before\n")
    add_summary([one], {"GITHUB_STEP_SUMMARY": str(file)})
    assert file.read_text() == f"before\n{summary([one])}"
    add_summary([one], {})
    with pytest.raises(ReportError, match=r"GITHUB_STEP_SUMMARY .* cannot be written"):
        add_summary([one], {"GITHUB_STEP_SUMMARY": str(tmp_path)})


def test_a_summary_is_never_larger_than_github_takes() -> None:
    """What does not fit is counted."""
    made = report(*[msgspec.structs.replace(UNSUPPORTED, id=str(n), reason=f"{n} {'r' * 290}") for n in range(20)])
    many = [made] * (2 * SUMMARY_BYTES // len(markdown(made)))
    text = summary(many)
    assert len(text.encode()) <= SUMMARY_BYTES
    assert text.endswith(" more reports did not fit here.\n")


def test_github_is_known_by_its_variable() -> None:
    """And by nothing else."""
    assert is_github({"GITHUB_ACTIONS": "true"})
    assert not is_github({"GITHUB_ACTIONS": "false", "CI": "true"})


def test_an_annotation_is_put_on_the_targets_file_in_the_checkout() -> None:
    """Its path from the checkout; none for a file elsewhere, one that is not known, or outside a checkout."""

    def place(path: str | None, environ: dict[str, str]) -> str:
        target = msgspec.structs.replace(TARGET, path=path)
        (line,) = workflow_commands([report(SEED, target=target)], environ)
        return line.partition("native")[2].partition("::")[0]

    checkout = {"GITHUB_WORKSPACE": "/w/repo"}
    assert place("/w/repo/a,b/my.py", checkout) == ",file=a%2Cb/my.py"
    assert place("/w/other/my.py", checkout) == ""
    assert place(None, checkout) == ""
    assert place("/w/repo/my.py", {}) == ""


def test_a_kernel_that_does_not_compile_is_an_error() -> None:
    """Beside the groups of failures, or alone."""
    failed = CompileFact("sm_75", "store", "failed", "no fp8")
    (line,) = workflow_commands([report(PASS, compiled=(failed,))], {})
    assert line.endswith("::compile-failure: store does not compile for sm_75: no fp8")
    assert line.startswith("::error ")
    assert len(workflow_commands([report(SEED, compiled=(failed,))], {})) == 2
