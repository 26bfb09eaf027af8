"""What GitHub Actions shows of a run: an annotation for each group of failures, and the job's summary.

An annotation is a line of the log that the runner takes for itself; GitHub shows the first ten errors of a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kvcheck.errors import ReportError
from kvcheck.report import details, sentences
from kvcheck.report.exit_codes import INCONCLUSIVE, NOTHING_COMPARED, PASSED, exit_code
from kvcheck.report.groups import Group, group_failures
from kvcheck.report.markdown import markdown
from kvcheck.report.plain import one_line, shorten
from kvcheck.schema import Report

#: GitHub shows as many errors a step, and as many bytes of summary.
MOST = 10
SUMMARY_BYTES = 1 << 20


def workflow_commands(reports: Sequence[Report], environ: Mapping[str, str], *, strict: bool = False) -> list[str]:
    """One `::error` a group of failures, worst first; one `::warning` for a report that only is no pass.

    Where the target's source lies in the checkout, the annotation is put on that file.
    """
    lines: list[str] = []
    for report in reports:
        groups = group_failures(report)
        about = f"title={_property(_title(report))}{_file(report, environ)}"
        wrong = sentences.uncompiled(report)
        lines += [_annotation(about, group) for group in groups]
        lines += [f"::error {about}::{_escaped_text(line)}" for line in wrong]
        code = exit_code(report, strict=strict)
        if not groups and not wrong and code != PASSED:
            level = "warning" if code in (INCONCLUSIVE, NOTHING_COMPARED) else "error"
            lines.append(f"::{level} {about}::{_escaped_text(sentences.result(report, strict=strict))}")
    if len(lines) > MOST:
        lines = [
            *lines[: MOST - 1],
            f"::error title=kvcheck::{len(lines) - MOST + 1} more groups of failures: see the summary",
        ]
    return lines


def summary(reports: Sequence[Report], *, strict: bool = False) -> str:
    """The job's summary: every report as Markdown, as many as GitHub takes."""
    text = ""
    for number, report in enumerate(reports):
        part = markdown(report, strict=strict) + "\n"
        if len((text + part).encode()) > SUMMARY_BYTES - 200:
            return f"{text}{len(reports) - number} more reports did not fit here.\n"
        text += part
    return text


def is_github(environ: Mapping[str, str]) -> bool:
    """Whether this process runs in a step of GitHub Actions."""
    return environ.get("GITHUB_ACTIONS") == "true"


def add_summary(reports: Sequence[Report], environ: Mapping[str, str], *, strict: bool = False) -> None:
    """Append to the job's summary, where there is one. Raises ReportError where it cannot be written."""
    name = environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        return
    try:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(summary(reports, strict=strict))
    except OSError as error:
        raise ReportError(
            f"GITHUB_STEP_SUMMARY {one_line(name)}: cannot be written: {error.strerror or error}"
        ) from error


def _annotation(about: str, group: Group) -> str:
    text = f"{details.title(group)}: {shorten(details.sentence(group), 400)}\nrepeat: {group.repeat}"
    return f"::error {about}::{_escaped_text(text)}"


def _file(report: Report, environ: Mapping[str, str]) -> str:
    """The target's source as a property, relative to the checkout; empty where it lies outside, or is not known."""
    checkout, source = environ.get("GITHUB_WORKSPACE"), report.target.path
    if not checkout or not source or not Path(source).is_relative_to(checkout):
        return ""
    return f",file={_property(str(Path(source).relative_to(checkout)))}"


def _title(report: Report) -> str:
    return f"kvcheck {one_line(report.target.name)} on {one_line(report.arch)}, {report.execution}"


def _escaped_text(text: str) -> str:
    """Text of a workflow command: what ends the line, and the escape itself, are escaped."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped_text(text).replace(":", "%3A").replace(",", "%2C")
