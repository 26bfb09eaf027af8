"""Processes that run several cases each, one after the other."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kvcheck.run.feed import GRACE
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import EMISSION, STAGE, Ended, Job, TargetInfo
from kvcheck.run.result import result_of
from kvcheck.schema import Case, CaseResult


@dataclass
class Desk:
    """Has a nursery run them, and judges what they leave."""

    nursery: Nursery
    info: TargetInfo
    cases: Sequence[Case]
    options: Options
    root: Path
    started: int = 0

    def run(self, sequences: Sequence[Sequence[int]]) -> list[list[CaseResult | None]]:
        """What comes of each case in each process, None where it did not run there to its end, by no fault of its own.

        Raises NurseryLostError.
        """
        jobs = [self._job(sequence) for sequence in sequences]
        ends = self._ends(jobs)
        for index, job in enumerate(jobs):
            if ends[job.number].outside:  # as any case: once more
                jobs[index] = self._job(sequences[index])
        ends |= self._ends([job for job in jobs if job.number not in ends])
        return [self._results(job, ends[job.number]) for job in jobs]

    def _ends(self, jobs: Sequence[Job]) -> dict[int, Ended]:
        for job in jobs:
            self.nursery.submit(job)
        limit = GRACE + sum(self.nursery.imports + job.timeout for job in jobs)
        ended = [self.nursery.next_ended(limit) for _ in jobs]
        return {one.number: one for one in ended}

    def _job(self, sequence: Sequence[int]) -> Job:
        """The job of one process: its first case's, and the others behind it."""
        self.started += 1
        parts = []
        for number in sequence:
            folder = self.root / f"{self.started}-{number}"
            folder.mkdir(parents=True)
            parts.append(Job(number, self.info.name, self.cases[number], str(folder), self.options.timeout))
        timeout = self.options.timeout * len(parts)
        return msgspec.structs.replace(parts[0], number=self.started, timeout=timeout, then=tuple(parts[1:]))

    def _results(self, job: Job, ended: Ended) -> list[CaseResult | None]:
        parts = [job, *job.then]
        begun = [part for part in parts if (Path(part.folder) / STAGE).exists()]
        results = [self._result(part, ended, last=part is begun[-1]) for part in begun]
        for part in parts:
            shutil.rmtree(part.folder, ignore_errors=True)
        return [*results, *[None] * (len(parts) - len(begun))]

    def _result(self, part: Job, ended: Ended, *, last: bool) -> CaseResult | None:
        """What a case left. Only the last to begin can have ended the process."""
        if (Path(part.folder) / EMISSION).exists():
            ended = msgspec.structs.replace(ended, exit=0, signal=None, timed_out=False, limit="", outside=False)
        elif not last or ended.outside or ended.timed_out or ended.limit:
            return None
        result = result_of(part.case, ended, Path(part.folder), self.info, expect_declared=False)
        return None if result.outcome == "inconclusive" else result
