"""Run cases of targets under shadow memory, in a nursery, as `kvcheck sanitize --device cpu` does."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import Job
from kvcheck.run.result import result_of
from kvcheck.run.session import unsupported
from kvcheck.run.shadow_seen import read
from kvcheck.schema import Case, CaseResult, SanitizerRun


@dataclass(frozen=True)
class Shadowed:
    """What shadow memory said of a case, and what the judge did."""

    case: Case
    run: SanitizerRun
    result: CaseResult


def shadow(spec: str | Path, cases: Mapping[str, Sequence[Case]], *, watched: bool = True) -> dict[str, list[Shadowed]]:
    """Every case that can be placed for its target, two at a time, in the cases' order.

    Unwatched, all is the same but that nothing is seen.
    """
    with Nursery(str(spec), Options(device="cpu", jobs=2)) as nursery, tempfile.TemporaryDirectory() as root:
        infos = {info.name: info for info in nursery.hello.targets}
        wanted = [(name, case) for name, some in cases.items() for case in some]
        jobs: list[Job] = []
        for name, case in wanted:
            if unsupported(case, infos[name], cuda=False) is None:
                folder = Path(root) / str(len(jobs))
                folder.mkdir()
                jobs.append(Job(len(jobs), name, case, str(folder), 120.0, witness="shadow" if watched else ""))
                nursery.submit(jobs[-1])
        ended = {each.number: each for each in (nursery.next_ended() for _ in jobs)}
        found: dict[str, list[Shadowed]] = {name: [] for name in cases}
        for job in jobs:
            folder = Path(job.folder)
            result = result_of(job.case, ended[job.number], folder, infos[job.target], expect_declared=False)
            found[job.target].append(Shadowed(job.case, read(folder), result))
        return found
