"""Run one target over cases: every case placed, run in a child, judged; none lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import msgspec

from kvcheck.contract import Contract
from kvcheck.matrix.ids import case_id
from kvcheck.memory.forms import Unplaceable
from kvcheck.memory.place import allocated, place
from kvcheck.run.astray import MOST, Trial, Trials, eliminations, known, stopped, stopped_unseen, traced
from kvcheck.run.confirm import chosen, confirm, job_of
from kvcheck.run.feed import Feed
from kvcheck.run.graphless import no_graph
from kvcheck.run.judge_worker import Question
from kvcheck.run.judges import Judges
from kvcheck.run.keep import keep_emission
from kvcheck.run.limits import limits_here
from kvcheck.run.options import Options
from kvcheck.run.order import Order, kernel_key
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import RECORDING, Ended, Job, TargetInfo
from kvcheck.run.repeated import with_repetition
from kvcheck.run.result import not_run
from kvcheck.run.room import no_room
from kvcheck.run.sanitized import with_runs
from kvcheck.run.scratch import scratch, scratch_in_memory
from kvcheck.run.shadow_seen import read
from kvcheck.run.yardstick import Yardstick
from kvcheck.schema import Case, CaseResult, Outcome, Placement, ProcessVerdict
from kvcheck.targets.limits import outside_limits

OnResult = Callable[[CaseResult], None]

#: Bytes of the allocations of a case whose files may lie in memory: they are no more than a few times as many.
SMALL = 1 << 20


@dataclass
class _Run:
    """One target's run: what the loop asks of it, and where results are gathered."""

    cases: Sequence[Case]
    info: TargetInfo
    options: Options
    root: Path
    on_result: OnResult
    results: dict[int, CaseResult] = field(default_factory=dict)
    in_memory: Path | None = None
    """Where the files of small cases lie, if not in `root`."""
    sizes: dict[int, int] = field(default_factory=dict)
    """The bytes of a case's allocations, where they are known."""

    def folder(self, number: int) -> Path:
        """Where a case's files lie."""
        small = self.sizes.get(number, SMALL + 1) <= SMALL
        root = self.in_memory if self.in_memory is not None and small else self.root
        return root / str(number)

    def job(self, number: int, *, reference: bool = False) -> Job:
        """A case's job, with a folder that is empty."""
        folder = self.root / "reference" if reference else self.folder(number)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)  # a target may have removed all that lies in the folder of temporary files
        witness = "" if reference else self.options.witness
        return Job(number, self.info.name, self.cases[number], str(folder), self.options.timeout, reference, witness)

    def question(self, ended: Ended, job: Job) -> Question:
        """What a judge is asked of a child that has ended."""
        return Question(job.case, ended, job.folder, self.info, self.options.expect_declared)

    def judged(self, number: int, result: CaseResult, nursery: Nursery) -> None:
        """A case is done: keep what it has left for later, and forget the rest."""
        folder = self.folder(number)
        if self.options.witness == "shadow":
            result = with_runs(result, (read(folder),))
        if self.options.records is not None and (folder / RECORDING).exists():
            shutil.copyfile(folder / RECORDING, self.options.records / f"{result.id}.msgpack")
        if self.options.keep is not None:
            keep_emission(self.options.keep, result, folder)
        shutil.rmtree(folder, ignore_errors=True)
        self.done(number, msgspec.structs.replace(result, device=nursery.label))

    def lost(self, number: int, nursery: Nursery) -> None:
        """A case has killed its nursery, running alone there."""
        reason = "the process that runs the cases died with this case under way, alone"
        result = not_run(self.cases[number], "crash", reason)
        self.done(number, msgspec.structs.replace(result, device=nursery.label, process=ProcessVerdict(outside=True)))

    def done(self, number: int, result: CaseResult) -> None:
        """Take a case's result."""
        self.results[number] = result
        self.on_result(result)


def run_target(  # noqa: PLR0913 - what a run is made of; the last three are named at the call
    nursery: Nursery,
    info: TargetInfo,
    cases: Sequence[Case],
    options: Options,
    on_result: OnResult,
    *,
    beside: Sequence[Nursery] = (),
    judges: Judges | None = None,
    earlier: Mapping[str, CaseResult] = MappingProxyType({}),
) -> tuple[CaseResult, ...]:
    """The results of all cases, in the cases' order.

    `on_result` is called with each as it comes, and once more with what each further process has made of it.
    The nurseries `beside` have the same target loaded, and share the cases. Without judges, cases are judged here.
    Cases that `earlier` knows by their id are not run again, but by as many more processes as were asked for.
    """
    with scratch() as folder, scratch_in_memory() as in_memory:
        run = _Run(cases, info, options, folder, on_result, in_memory=in_memory)
        keys: dict[int, Hashable] = {}
        runnable: list[int] = []
        yardstick: Yardstick | None = None
        most = limits_here().resident
        for number, case in enumerate(cases):
            if (known := earlier.get(case_id(case))) is not None:
                run.done(number, known)
                continue
            planned = _not_here(nursery, info, options) or _planned(case, info, options, most, cuda=nursery.hello.cuda)
            if isinstance(planned, Placement):
                runnable.append(number)
                run.sizes[number] = sum(planned.allocations)
                if nursery.hello.cuda and info.triton:
                    keys[number] = kernel_key(case, planned)
                if yardstick is None and isinstance(info.contract, Contract):
                    yardstick = Yardstick(nursery, info, partial(run.job, number, reference=True))
            else:
                run.done(number, not_run(case, *planned))
        mistake = None if yardstick is None else yardstick.mistake()
        if mistake is not None:
            for number in runnable:
                run.done(number, not_run(cases[number], "inconclusive", mistake))
        else:
            Feed([nursery, *beside], judges, Order(runnable, keys), run).run()
            if options.confirm:
                _confirm(run, nursery)
            if options.trace:
                _trace(run, [nursery, *beside], judges)
            _repeat(run, [nursery, *beside], judges, keys)
    return tuple(run.results[number] for number in range(len(cases)))


def _repeat(run: _Run, nurseries: Sequence[Nursery], judges: Judges | None, keys: Mapping[int, Hashable]) -> None:
    """Run every case that passes in more processes, as often as was asked, and compare their bytes."""
    for process in range(2, run.options.repeat + 1):
        due = {
            result.id: number
            for number, result in sorted(run.results.items())
            if result.outcome == "pass" and result.determinism.processes < process
        }
        root = run.root / f"process-{process}"
        root.mkdir(parents=True)

        def on_result(result: CaseResult, process: int = process, due: Mapping[str, int] = due) -> None:
            number = due[result.id]
            run.done(number, with_repetition(run.results[number], result, process))

        again = _Run(run.cases, run.info, replace(run.options, keep=None, records=None), root, on_result)
        order = Order(due.values(), {number: keys[number] for number in due.values() if number in keys})
        Feed(nurseries, judges, order, again).run()


def _confirm(run: _Run, nursery: Nursery) -> None:
    """Run a few failing cases in fresh interpreters. Their results stand for the earlier ones."""
    root = run.root / "fresh"
    timeout = run.options.timeout
    jobs = [job_of(run.cases[number], number, run.info, root / str(number), timeout) for number in chosen(run.results)]
    run.results.update(confirm(nursery, run.info, jobs, run.results, expect_declared=run.options.expect_declared))


@dataclass
class _Again(_Run):
    """A run of trials: cases once more, some with fewer fences."""

    trials: Sequence[Trial] = ()

    def job(self, number: int, *, reference: bool = False) -> Job:
        """A trial's job."""
        return msgspec.structs.replace(super().job(number, reference=reference), fenced=self.trials[number].fenced)


def _trace(run: _Run, nurseries: Sequence[Nursery], judges: Judges | None) -> None:
    """Find out what the cases do that a fence has stopped. What is found stands in their results."""
    met = [number for number in sorted(run.results) if stopped(run.cases[number], run.results[number])]
    placements = {number: _placement(run.cases[number], run.info, cuda=nurseries[0].hello.cuda) for number in met}
    trials = [known(number, run.cases[number]) for number in met]
    trials = [each for each in trials if unsupported(each.case, run.info, cuda=nurseries[0].hello.cuda) is None]
    for number in [each for each in met if stopped_unseen(run.results[each])][:MOST]:
        trials += eliminations(number, run.cases[number], placements[number])
    if not trials:
        return
    root = run.root / "astray"
    root.mkdir(parents=True)
    options = replace(run.options, keep=None, records=None, witness="")
    again = _Again([each.case for each in trials], run.info, options, root, lambda _: None, trials=trials)
    Feed(nurseries, judges, Order(range(len(trials)), {}), again).run()
    found: dict[int, Trials] = {number: Trials() for number in met}
    for number, each in enumerate(trials):
        found[each.number].take(each, again.results[number])
    for number, seen in found.items():
        run.results[number] = traced(run.results[number], seen, placements[number], run.info)


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


def _planned(
    case: Case, info: TargetInfo, options: Options, most: int, *, cuda: bool
) -> Placement | tuple[Outcome, str]:
    """Where a case's tensors lie, or why it is not run.

    `most` are the bytes that a case's process may have: beyond, nothing is drawn.
    """
    try:
        size = allocated(case, info.contract, info.form, info.accepts, cuda=cuda)
        if (reason := no_room(case, size, most)) is not None:
            return "inconclusive", reason
        placement = _placement(case, info, cuda=cuda)
    except Unplaceable as error:
        return "unsupported", str(error)
    limit = no_graph(case, info, options)
    limit = limit or outside_limits(case, info.contract, info.accepts, info.form, placement)
    return placement if limit is None else ("unsupported", limit)


def unsupported(case: Case, info: TargetInfo, *, cuda: bool) -> str | None:
    """Why a target does not take a case, or None. Nothing is started to find out."""
    try:
        placement = _placement(case, info, cuda=cuda)
    except Unplaceable as error:
        return str(error)
    return outside_limits(case, info.contract, info.accepts, info.form, placement)


def _placement(case: Case, info: TargetInfo, *, cuda: bool) -> Placement:
    return place(case, info.contract, info.form, info.accepts, cuda=cuda)
