"""Run cases of a target under shadow memory, in a nursery, as `kvcheck sanitize --device cpu` does."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import Ended, Job, TargetInfo
from kvcheck.run.result import result_of
from kvcheck.run.session import unsupported
from kvcheck.run.shadowed import read
from kvcheck.schema import Case, CaseResult, SanitizerRun


@dataclass(frozen=True)
class Shadowed:
    """What shadow memory said of a case, and what the judge did."""

    case: Case
    run: SanitizerRun
    result: CaseResult


def shadow(spec: str | Path, target: str, cases: Sequence[Case], *, witness: bool = True) -> tuple[Shadowed, ...]:
    """Every case that can be placed for the target, two at a time, in the cases' order."""
    options = Options(device="cpu", jobs=2)
    with Nursery(str(spec), options) as nursery, tempfile.TemporaryDirectory() as root:
        (info,) = (each for each in nursery.hello.targets if each.name == target)
        todo = [(number, case) for number, case in enumerate(cases) if unsupported(case, info, cuda=False) is None]
        folders = {number: Path(root) / str(number) for number, _ in todo}
        for number, case in todo:
            folders[number].mkdir()
            name = "shadow" if witness else ""
            nursery.submit(Job(number, target, case, str(folders[number]), 120.0, witness=name))  # type: ignore[arg-type]
        ended = {each.number: each for each in (nursery.next_ended() for _ in todo)}
        return tuple(_seen(case, folders[number], ended[number], info) for number, case in todo)


def _seen(case: Case, folder: Path, ended: Ended, info: TargetInfo) -> Shadowed:
    return Shadowed(case, read(folder), result_of(case, ended, folder, info, expect_declared=False))
