"""Run one target over cases: every case placed, run in a child, judged; none lost."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kvcheck.contract import Contract
from kvcheck.memory.forms import Unplaceable
from kvcheck.memory.place import place
from kvcheck.run.keep import keep_emission
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery, NurseryLostError
from kvcheck.run.protocol import RECORDING, Ended, Job, TargetInfo
from kvcheck.run.result import not_run, result_of
from kvcheck.run.sanitized import with_runs
from kvcheck.run.shadowed import read
from kvcheck.schema import Case, CaseResult, Outcome
from kvcheck.targets.limits import outside_limits

OnResult = Callable[[CaseResult], None]

#: Jobs handed to the nursery ahead of those that run, so that a child never waits for the judge.
AHEAD = 4


@dataclass
class _Run:
    nursery: Nursery
    info: TargetInfo
    options: Options
    root: Path
    on_result: OnResult
    suspects: set[int] = field(default_factory=set)
    """Cases that were under way when a nursery died: each runs alone, so that it is known which one did it."""


def run_target(
    nursery: Nursery, info: TargetInfo, cases: Sequence[Case], options: Options, on_result: OnResult
) -> tuple[CaseResult, ...]:
    """The results of all cases, in the cases' order. `on_result` is called with each as it comes."""
    with tempfile.TemporaryDirectory(prefix="kvcheck-") as folder:
        run = _Run(nursery, info, options, Path(folder), on_result)
        results: dict[int, CaseResult] = {}
        runnable: list[int] = []
        for number, case in enumerate(cases):
            kept_back = _not_here(nursery, info, options) or _not_taken(case, info, cuda=nursery.hello.cuda)
            if kept_back is None:
                runnable.append(number)
            else:
                _done(run, results, number, not_run(case, *kept_back))
        mistake = _reference(run, cases[runnable[0]]) if runnable else None
        if mistake is not None:
            for number in runnable:
                _done(run, results, number, not_run(cases[number], "inconclusive", mistake))
        else:
            _run_all(run, cases, runnable, results)
    return tuple(results[number] for number in range(len(cases)))


def _not_here(nursery: Nursery, info: TargetInfo, options: Options) -> tuple[Outcome, str] | None:
    """Why no case of a target can be judged on this machine, or None."""
    arch, native = nursery.hello.arch, info.native_arch
    if info.missing is not None:
        return "unsupported", info.missing
    if options.require_native and info.execution != "native":
        return "inconclusive", f"--require-native: {arch} was asked for, and this is {native or 'no GPU'}"
    if not info.triton and nursery.arch and arch != native:
        where = f"natively, on {native}," if native else "on the host"
        return "unsupported", f"no Triton kernel, so there is no lowering for {arch}: it runs {where} alone"
    if info.execution == "interpreted" and nursery.hello.doubt is not None:
        return "inconclusive", f"Triton's interpreter does not stand for {arch} here: {nursery.hello.doubt}"
    return None


def _not_taken(case: Case, info: TargetInfo, *, cuda: bool) -> tuple[Outcome, str] | None:
    reason = unsupported(case, info, cuda=cuda)
    return None if reason is None else ("unsupported", reason)


def unsupported(case: Case, info: TargetInfo, *, cuda: bool) -> str | None:
    """Why a target does not take a case, or None. Nothing is started to find out."""
    try:
        placement = place(case, info.contract, info.form, info.accepts, cuda=cuda)
    except Unplaceable as error:
        return str(error)
    return outside_limits(case, info.contract, info.accepts, info.form, placement)


def _reference(run: _Run, case: Case) -> str | None:
    """Run kvcheck's host store through the target's first placement. Why nothing can be judged here, or None."""
    if not isinstance(run.info.contract, Contract):
        return None
    job = _job(run, -1, case, reference=True)
    try:
        run.nursery.submit(job)
        ended = run.nursery.next_ended()
    except NurseryLostError:
        run.nursery.restart()
        return "the process that runs the cases died while kvcheck checked itself"
    result = result_of(case, ended, Path(job.folder), run.info, expect_declared=False)
    shutil.rmtree(job.folder, ignore_errors=True)
    if result.outcome in ("pass", "unsupported"):
        return None
    return f"kvcheck's own reference store fails on this placement, so nothing is said of the target: {result.reason}"


def _run_all(run: _Run, cases: Sequence[Case], numbers: list[int], results: dict[int, CaseResult]) -> None:
    """Keep the nursery fed; when it dies, start another and find the case that killed it by running them alone."""
    queue = list(reversed(numbers))
    flying: dict[int, Job] = {}
    while queue or flying:
        room = 1 if run.suspects else run.options.jobs + AHEAD
        try:
            while queue and len(flying) < room:
                number = queue.pop()
                flying[number] = _job(run, number, cases[number])
                run.nursery.submit(flying[number])
            ended = run.nursery.next_ended()
        except NurseryLostError:
            _lost(run, cases, queue, flying, results)
            continue
        job = flying.pop(ended.number)
        run.suspects.discard(ended.number)
        _finish(run, cases, results, ended, job)


def _finish(run: _Run, cases: Sequence[Case], results: dict[int, CaseResult], ended: Ended, job: Job) -> None:
    case = cases[ended.number]
    folder = Path(job.folder)
    result = result_of(case, ended, folder, run.info, expect_declared=run.options.expect_declared)
    if run.options.witness == "shadow":
        result = with_runs(result, (read(folder),))
    if run.options.records is not None and (folder / RECORDING).exists():
        shutil.copyfile(folder / RECORDING, run.options.records / f"{result.id}.msgpack")
    if run.options.keep is not None:
        keep_emission(run.options.keep, result, folder)
    shutil.rmtree(folder, ignore_errors=True)
    _done(run, results, ended.number, result)


def _lost(
    run: _Run, cases: Sequence[Case], queue: list[int], flying: dict[int, Job], results: dict[int, CaseResult]
) -> None:
    """The nursery died. Alone, the case under way did it; otherwise all under way run again, one at a time."""
    run.nursery.restart()
    if run.suspects and len(flying) == 1:
        (number,) = flying
        reason = "the process that runs the cases died with this case under way, alone"
        _done(run, results, number, not_run(cases[number], "crash", reason))
        run.suspects.discard(number)
        flying.clear()
    queue.extend(sorted(flying, reverse=True))
    run.suspects.update(flying)
    flying.clear()


def _job(run: _Run, number: int, case: Case, *, reference: bool = False) -> Job:
    folder = run.root / ("reference" if reference else str(number))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    witness = "" if reference else run.options.witness
    return Job(number, run.info.name, case, str(folder), run.options.timeout, reference, witness)


def _done(run: _Run, results: dict[int, CaseResult], number: int, result: CaseResult) -> None:
    results[number] = result
    run.on_result(result)
