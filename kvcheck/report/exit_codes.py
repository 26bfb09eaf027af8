"""The exit codes of a run, and which one a set of reports earns.

Each report answers for itself, and the run takes the code that `PRECEDENCE` puts first: a target that compared nothing
is not hidden by another that passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvcheck.report import outcomes
from kvcheck.schema import CaseResult, Report

#: Every case passed, or failed as it was declared to.
PASSED = 0
#: A case is a mismatch, violation, crash, timeout or unexpected pass, or a kernel does not compile for the arch.
FAILED = 1
#: The command line, or a file it names, cannot be used.
USAGE = 2
#: A case could not be judged, or fewer cases ran than were planned.
INCONCLUSIVE = 3
#: No case compared a single code.
NOTHING_COMPARED = 4
#: The run was stopped with Ctrl-C, SIGTERM or SIGHUP.
INTERRUPTED = 130

#: The code that wins where several apply.
PRECEDENCE = (INTERRUPTED, USAGE, FAILED, INCONCLUSIVE, NOTHING_COMPARED, PASSED)

#: One sentence for each code.
SENTENCES: dict[int, str] = {
    PASSED: "no case failed, and none was left unjudged",
    FAILED: "a case is a mismatch, violation, crash, timeout or unexpected pass, or a kernel does not compile",
    USAGE: "the command line, or a file it names, cannot be used",
    INCONCLUSIVE: "a case could not be judged, or fewer cases ran than were planned",
    NOTHING_COMPARED: "a target had no case in which a code was compared",
    INTERRUPTED: "stopped with Ctrl-C, or as a signal asked",
}


def combine(codes: Iterable[int]) -> int:
    """The code that wins among several; `NOTHING_COMPARED` where there is none. Raises ValueError for another code."""
    return min(codes, key=PRECEDENCE.index, default=NOTHING_COMPARED)


def exit_code(reports: Report | Sequence[Report], planned: int | None = None, strict: bool = False) -> int:
    """The exit code of a run that wrote these reports.

    `planned` is the number of cases the whole run set out to do, where that is more than the reports know of (a target
    that never got as far as a report). `strict` also fails on legal codes and scales and on refused cases.
    """
    listed = [reports] if isinstance(reports, Report) else list(reports)
    codes = [_of_one(report, strict=strict) for report in listed]
    if planned is not None and sum(ran(report) for report in listed) < planned:
        codes.append(INCONCLUSIVE)
    return combine(codes)


def fails(case: CaseResult, *, strict: bool) -> bool:
    """Whether a case alone makes a run exit with `FAILED`."""
    if case.outcome in outcomes.FAILING:
        return True
    return strict and (case.outcome == "refused" or case.codes.legal > 0 or case.scales.legal > 0)


def does_not_compile(report: Report) -> bool:
    """Whether a kernel was found not to compile for the arch, though the interpreter may have run it."""
    return any(fact.outcome == "failed" for fact in report.compiled)


def ran(report: Report) -> int:
    """How many different cases a report holds: one that is there twice does not stand in for one that is missing."""
    return len({case.id for case in report.cases})


def _of_one(report: Report, *, strict: bool) -> int:
    """The exit code that one report earns."""
    if any(fails(case, strict=strict) for case in report.cases) or does_not_compile(report):
        return FAILED
    if (
        ran(report) < report.planned
        or report.missing_shards
        or any(case.outcome == "inconclusive" for case in report.cases)
    ):
        return INCONCLUSIVE
    if not any(case.codes.compared > 0 for case in report.cases):
        return NOTHING_COMPARED
    return PASSED
