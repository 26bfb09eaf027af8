"""Run several targets over the same cases: a nursery, a progress display and a report for each."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from kvcheck.errors import KvcheckError, ReportError, SelectionError, TargetError
from kvcheck.report.build import build
from kvcheck.report.deliver import NOTHING, Wanted, deliver
from kvcheck.report.exit_codes import INTERRUPTED, USAGE, combine, exit_code
from kvcheck.report.plain import one_line
from kvcheck.report.progress import Progress
from kvcheck.report.terminal import show
from kvcheck.report.write import Written, folder, write
from kvcheck.run.compiled import Compiling
from kvcheck.run.devices import devices_of, share
from kvcheck.run.interrupts import Heard, Held
from kvcheck.run.journal import NAME, Journal, Kept, kept
from kvcheck.run.journal_key import key_of
from kvcheck.run.judges import Judges
from kvcheck.run.locks import only_one
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import Hello, TargetInfo
from kvcheck.run.result import FORMS, SLUGS
from kvcheck.run.sanitize import Witnesses
from kvcheck.run.session import run_target
from kvcheck.run.together import run_together
from kvcheck.schema import Case, CaseResult, CompileFact, Report, TargetFacts, Together
from kvcheck.targets.load import check_name

#: More contexts at a time than this gain nothing on one GPU.
MOST_ON_A_GPU = 8


@dataclass
class _Work:
    """What a run does for each target, and what has come of it."""

    cases: Sequence[Case]
    options: Options
    out: Path
    command: str
    strict: bool
    reports: list[Report] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    witnesses: Witnesses | None = None
    """What watches the launches, beside the judge; None for a run without."""
    judges: Judges | None = None
    unloaded: int = 0
    """Targets that could not be loaded, at first or once more. Each has been said."""

    def folders(self) -> list[Path]:
        """The folders this run has written to."""
        return [files.json.parent for files in self.written]


def run_targets(  # noqa: PLR0913 - a command's options; the last three are named at the call
    specs: Sequence[str],
    cases: Sequence[Case],
    options: Options,
    out: Path,
    command: str,
    *,
    strict: bool,
    witnesses: Witnesses | None = None,
    asked: Wanted = NOTHING,
) -> int:
    """Run every target, before witnesses if there are any, write its report, print what was found; the exit code.

    A target that cannot be loaded is said in one line, and the others run. Raises KvcheckError where one is unknown,
    before any has run, and where `out` cannot be written. `asked` is what the run hands over beside its reports.
    """
    for spec in specs:
        check_name(spec)
    _check_folder(out)
    entries = devices_of(options.device)
    options = replace(options, jobs=share(options.jobs, len(entries), most=MOST_ON_A_GPU))
    work = _Work(cases, options, out, command, strict, witnesses=witnesses)
    interrupted = False
    try:
        with Judges(max(1, len(os.sched_getaffinity(0)) // 2)) as work.judges:
            for spec in specs:
                _run_archs(work, spec)
    except KeyboardInterrupt:
        interrupted = True
    except KvcheckError:
        # What has run is written; say so before the reason for which the rest has not.
        if work.reports:
            show(work.reports, work.written, strict=strict)
        raise
    if work.unloaded and not work.reports and not interrupted:
        return USAGE
    code = INTERRUPTED if interrupted else exit_code(work.reports, strict=strict)
    code = combine((code, USAGE)) if work.unloaded else code
    try:
        added, told = deliver(work.reports, asked, os.environ, strict=strict)
    except KvcheckError:
        show(work.reports, work.written, code=USAGE, strict=strict)
        raise
    code = combine((code, added))
    show(work.reports, work.written, code=code, strict=strict)
    sys.stdout.write("".join(f"{line}\n" for line in told))
    return code


def _check_folder(out: Path) -> None:
    """Raise ReportError where nothing can be written to `out`: before the run that would be lost."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise ReportError(f"--out {out}: cannot be written: {error.strerror or error}") from error


def _run_archs(work: _Work, spec: str) -> None:
    """Run what a spec names as every arch. Where it cannot be loaded that is said at once: the others may take long."""
    try:
        for arch in work.options.archs or ("",):
            _run_spec(work, spec, arch)
    except TargetError as error:  # as another arch it is loaded no better
        sys.stderr.write(f"kvcheck: {one_line(str(error))}\n")
        work.unloaded += 1


def _run_spec(work: _Work, spec: str, arch: str) -> None:
    """Run every target that a spec names, as one arch, in a nursery for each device; write a report for each target."""
    with contextlib.ExitStack() as stack:
        nurseries: list[Nursery] = []
        for device in devices_of(work.options.device):
            nursery = stack.enter_context(Nursery(spec, replace(work.options, device=device), arch))
            if nursery.hello.missing is not None:
                raise TargetError(f"target {spec!r} cannot be imported: {nursery.hello.missing}")
            nurseries.append(nursery)
        first = nurseries[0].hello
        for other in nurseries[1:]:
            if (other.hello.arch, other.hello.targets) != (first.arch, first.targets):
                raise SelectionError(
                    f"--device: {nurseries[0].label} runs as {first.arch} and {other.label} as {other.hello.arch}, or "
                    "not alike; a report is of one arch and execution: run them apart"
                )
        if work.witnesses is not None:
            work.witnesses.check(first)
        for info in first.targets:
            place = folder(_report((), work, first, info), work.out, work.folders())
            with (
                only_one(place),
                Compiling(spec, info, work.cases, work.options, first.arch) as compiling,
                Held(),
            ):
                _run_info(work, nurseries, spec, info, compiling, place)


def _run_info(
    work: _Work, nurseries: Sequence[Nursery], spec: str, info: TargetInfo, compiling: Compiling, place: Path
) -> None:
    """Run one target. What stops it is raised again when what there is has been written.

    That is a process that cannot be started, or cannot load the target, once more; and Ctrl-C, which is heard while
    cases run and held else.
    """
    nursery, *beside = nurseries
    hello = _together(nurseries)
    key = {**key_of(info, hello, work.cases, work.options), "witnesses": "" if work.witnesses is None else "sanitizers"}
    earlier = kept(place / NAME, key) if work.options.resume else Kept({})
    if work.options.resume:
        _say_resumed(info.name, earlier, len(work.cases))
    _forget(place, earlier.results)
    done: dict[str, CaseResult] = {}
    stopped: KeyboardInterrupt | KvcheckError | None = None
    together: tuple[Together, ...] = ()
    compiled: tuple[CompileFact, ...] = ()
    with (
        Journal(place / NAME, key, earlier.results) as journal,
        Progress(len(work.cases), f"{info.name} on {hello.arch}, {info.execution}") as progress,
    ):

        def on_result(result: CaseResult) -> None:
            with Held():
                if earlier.results.get(result.id) != result:
                    journal.add(result)
                if result.id not in done:
                    progress.advance(result)
                done[result.id] = result

        options = replace(work.options, keep=place / "cases")
        try:
            with Heard():
                if work.witnesses is not None:
                    ran = work.witnesses.run(nursery, spec, info, work.cases, options, on_result)
                    done = {result.id: result for result in ran}
                else:
                    ran = run_target(
                        nursery, info, work.cases, options, on_result,
                        beside=beside, judges=work.judges, earlier=earlier.results,
                    )  # fmt: skip
                    done = {result.id: result for result in ran}
                    ended, found = run_together(nursery, info, work.cases, ran, options)
                    done, together = {result.id: result for result in ended}, (found,)
                compiled = compiling.facts()
        except ReportError:
            raise  # what cannot be written cannot be written here either
        except (KeyboardInterrupt, KvcheckError) as reason:
            stopped = reason
    report = _report(tuple(done.values()), work, hello, info)
    if stopped is None:
        report = msgspec.structs.replace(report, compiled=compiled, together=together)
    work.reports.append(report)
    work.written.append(write(report, work.out, strict=work.strict, taken=work.folders()))
    if stopped is not None:
        raise stopped


def _together(nurseries: Sequence[Nursery]) -> Hello:
    """What the first nursery says of the machine; and, where there are several, on what each runs."""
    hello = nurseries[0].hello
    if len(nurseries) == 1:
        return hello
    return msgspec.structs.replace(
        hello, environment={**hello.environment, "devices": "; ".join(nursery.label for nursery in nurseries)}
    )


def _report(results: Sequence[CaseResult], work: _Work, hello: Hello, info: TargetInfo) -> Report:
    return build(
        results,
        planned=len(work.cases),
        environment={**hello.environment, **({"sanitizer": work.witnesses.name(hello)} if work.witnesses else {})},
        target=TargetFacts(
            info.name,
            info.kind,
            info.contract,
            info.form,
            info.kernels_sha256,
            info.version,
            info.path,
            info.engine_files,
        ),
        arch=hello.arch,
        execution=info.execution,
        command=work.command,
        faults=SLUGS,
        forms=FORMS,
    )


def _say_resumed(name: str, earlier: Kept, planned: int) -> None:
    """Say how much of an earlier run counts, or why none does."""
    if earlier.anew:
        said = f"{name} runs anew: {earlier.anew}"
    else:
        dropped = "; its journal is damaged behind them" if earlier.damaged else ""
        said = f"{name}: {len(earlier.results)} of {planned} cases are taken over{dropped}"
    sys.stderr.write(f"kvcheck: --resume: {one_line(said)}\n")


def _forget(place: Path, but: Container[str]) -> None:
    """Remove the report and the emissions that an earlier run left here: they would be taken for this run's.

    Emissions of the cases in `but` are taken over.
    """
    for file in (place / "report.json", place / "report.md"):
        file.unlink(missing_ok=True)
    for file in (place / "cases").glob("*.msgpack"):
        if file.stem not in but:
            file.unlink(missing_ok=True)
