"""What a run hands over at its end beside its reports: JUnit XML, a comparison with a baseline, GitHub's summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from kvcheck.report import exit_codes
from kvcheck.report.compare import compare
from kvcheck.report.compared import lines
from kvcheck.report.github import add_summary, is_github, workflow_commands
from kvcheck.report.junit import write_junit
from kvcheck.report.merge import find
from kvcheck.report.plain import one_line
from kvcheck.report.write import check_writable
from kvcheck.schema import Report


class Wanted(msgspec.Struct, frozen=True):
    """What is to be handed over."""

    junit: Path | None = None
    baseline: tuple[Report, ...] = ()


NOTHING = Wanted()


def wanted(junit: Path | None = None, baseline: Path | None = None) -> Wanted:
    """Read the baseline, a report or a folder of them, before the run, and see that JUnit's file can be written.

    Raises ReportError where either cannot be done.
    """
    if junit is not None:
        check_writable(junit)
    reports = find([baseline]) if baseline is not None else []
    return Wanted(junit, tuple(report for _, report in reports))


def deliver(
    reports: Sequence[Report], asked: Wanted, environ: Mapping[str, str], *, strict: bool = False
) -> tuple[int, list[str]]:
    """Write what was asked for. The exit code that it adds, and lines to print.

    A baseline only ever adds to a run's exit code: what failed before still fails, and what got worse fails too. In
    GitHub Actions the summary is appended to and annotations are among the lines. Raises ReportError.
    """
    code = exit_codes.PASSED
    told: list[str] = []
    if asked.baseline:
        code, told = _against(reports, asked.baseline)
    if asked.junit is not None:
        write_junit(reports, asked.junit, strict=strict)
    if is_github(environ):
        add_summary(reports, environ, strict=strict)
        told += workflow_commands(reports, environ, strict=strict)
    return code, told


def _against(reports: Sequence[Report], baseline: Sequence[Report]) -> tuple[int, list[str]]:
    """Each report held against the baseline's of the same target, arch and execution.

    A run of some cases alone (`--select`, `--shard`) says nothing of the others: they are not missing.
    """
    before = {(each.target.name, each.arch, each.execution): each for each in baseline}
    codes: list[int] = []
    told: list[str] = []
    for report in reports:
        name = f"{one_line(report.target.name)} on {one_line(report.arch)}, {report.execution}"
        earlier = before.get((report.target.name, report.arch, report.execution))
        if earlier is None:
            codes.append(exit_codes.INCONCLUSIVE)
            told.append(f"{name}: the baseline has no such report, so nothing is said of what changed")
            continue
        found = compare(_asked_for(earlier, report), report)
        first, *rest = lines(found)
        codes.append(found.exit_code)
        told += [f"{name}, against the baseline: {first}", *rest]
    return exit_codes.combine(codes or [exit_codes.PASSED]), told


def _asked_for(earlier: Report, report: Report) -> Report:
    """The earlier report, with no other cases than the newer one's where that run was asked for some alone."""
    if not any(word.partition("=")[0] in ("--select", "--shard") for word in report.command.split()):
        return earlier
    here = {case.id for case in report.cases}
    return msgspec.structs.replace(earlier, cases=tuple(case for case in earlier.cases if case.id in here))
