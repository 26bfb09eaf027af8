"""A few failing cases run once more, each in a fresh interpreter: what fails must not depend on what was forked."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from kvcheck.run.cold import run_fresh
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import Job, TargetInfo
from kvcheck.run.result import result_of
from kvcheck.schema import Case, CaseResult, Outcome

#: Outcomes that are confirmed. Not `timeout`: it would take its whole time again.
FAILING = frozenset({"crash", "mismatch", "violation", "xpass", "xfail"})

#: Cases of one target that are confirmed at most. Each costs the seconds that importing torch takes.
MOST = 4


def chosen(results: Mapping[int, CaseResult]) -> list[int]:
    """The first case of every group of equal outcome and first fault, `MOST` at most, in the cases' order."""
    first: dict[tuple[Outcome, str], int] = {}
    for number in sorted(results):
        result = results[number]
        if result.outcome in FAILING and (result.process.exit, result.process.signal) != (None, None):
            first.setdefault((result.outcome, result.diagnosis[0].fault if result.diagnosis else ""), number)
    return sorted(first.values())[:MOST]


def confirm(
    nursery: Nursery,
    info: TargetInfo,
    jobs: Sequence[Job],
    results: Mapping[int, CaseResult],
    *,
    expect_declared: bool,
) -> dict[int, CaseResult]:
    """The results of some cases, each with whether a fresh interpreter comes to the same outcome, by number.

    One that somebody else may have ended says nothing, and runs once more.
    """
    found = {}
    at_a_time = nursery.jobs
    first = run_fresh(nursery, jobs, at_a_time=at_a_time)
    again = [_emptied(job) for job, ended in zip(jobs, first, strict=True) if ended.outside]
    ends = {ended.number: ended for ended in (*first, *run_fresh(nursery, again, at_a_time=at_a_time))}
    for job in jobs:
        ended = ends[job.number]
        fresh = result_of(job.case, ended, Path(job.folder), info, expect_declared=expect_declared)
        found[job.number] = confirmed(results[job.number], fresh)
    return found


def confirmed(result: CaseResult, fresh: CaseResult) -> CaseResult:
    """A failing case's result beside that of a fresh interpreter. What comes out otherwise there never gets better.

    One that says nothing, since it could not be judged or somebody else may have ended it, is told.
    """
    if fresh.outcome == "inconclusive" or (fresh.process.outside and not result.process.outside):
        said = f"not confirmed in a fresh interpreter: {fresh.reason}"
        return msgspec.structs.replace(result, reason="; ".join(filter(None, [result.reason, said])))
    if fresh.outcome == result.outcome:
        return msgspec.structs.replace(result, cold_confirmed=True)
    # An expected failure that does not fail alike is no longer what was expected.
    outcome: Outcome = "violation" if result.outcome == "xfail" else result.outcome
    doubt = "somebody else may have ended it" if result.process.outside else "order-dependent or nondeterministic"
    reason = (
        f"{doubt}: in a fresh interpreter this case ends as {fresh.outcome}"
        f"{f' ({fresh.reason})' if fresh.reason else ''}; in its own fork: {result.reason}"
    )
    return msgspec.structs.replace(result, outcome=outcome, reason=reason, cold_confirmed=False)


def _emptied(job: Job) -> Job:
    """The job, with a folder that is empty."""
    shutil.rmtree(job.folder)
    Path(job.folder).mkdir()
    return job


def job_of(case: Case, number: int, info: TargetInfo, folder: Path, timeout: float) -> Job:
    """A job for a fresh interpreter, with a folder of its own."""
    folder.mkdir(parents=True)
    return Job(number, info.name, case, str(folder), timeout)
