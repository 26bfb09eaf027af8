"""From how a child ended to a case's result: judged, diagnosed, or why neither could be done."""

from __future__ import annotations

import signal
import traceback
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kvcheck.diagnose.diagnose import Shown, examine, foreseen, ruled_out
from kvcheck.diagnose.faults import FAULTS, form_names
from kvcheck.judge.judge import judge
from kvcheck.matrix.ids import axes_of, case_id
from kvcheck.memory.overrun import Overrun, fenced, overrun
from kvcheck.run.protocol import (
    EMISSION,
    FAILURE,
    PLACING,
    PREPARING,
    SCENE,
    STAGE,
    STDERR,
    UNSET,
    UNWRITTEN,
    WRITING,
    Ended,
    Failure,
    TargetInfo,
)
from kvcheck.schema import (
    Case,
    CaseResult,
    Copy,
    Diagnosis,
    Emission,
    Outcome,
    ProcessVerdict,
    Verdict,
)

#: The faults that a case's `observable` points into.
SLUGS = tuple(dict.fromkeys(fault.slug for fault in FAULTS))
#: Their forms that a case's `shown` points into.
FORMS = tuple(name for fault in FAULTS for name in form_names(fault.slug, fault.forms))

#: The faults that may lead a kernel out of a tensor.
LEAVING = frozenset(
    {
        *("sibling-pitch", "dense-heads", "inner-stride-ignored", "offset-ignored", "sibling-cache-stride"),
        *("cache-layout", "page-stride-from-shape", "page-boundary", "head-mapping", "index-wrap", "tail-mask"),
        *("misaligned", "scale-address", "scale-layout", "amax-population", "reinterpreted-source", "stray-write"),
        *("negative-slot", "uninitialised-read", "foreign-read", "layer-remap"),
    }
)

#: Lines of a process's own output that a result keeps.
LAST_LINES = 60
#: Signals by number, as people write them.
SIGNALS = {number.value: number.name for number in signal.Signals}


#: What CUDA says of an access to memory that is not mapped.
ILLEGAL = "illegal memory access"


@dataclass(frozen=True)
class Judged:
    """What judge and diagnosis made of an emission."""

    verdict: Verdict
    diagnosis: tuple[Diagnosis, ...] = ()
    observable: tuple[int, ...] = ()
    shown: tuple[int, ...] = ()
    copies: tuple[Copy, ...] = ()
    device: str = ""
    error: str | None = None


def result_of(case: Case, ended: Ended, folder: Path, info: TargetInfo, *, expect_declared: bool) -> CaseResult:
    """The result of a case whose child has ended. Only an emission and exit status 0 together are judged."""
    process = ProcessVerdict(ended.exit, SIGNALS.get(ended.signal or 0), None, outside=ended.outside)
    if (own := _no_process(ended, folder) or _own_work(ended, folder)) is not None:
        error = msgspec.structs.replace(process, error=_told(folder) or _printed(folder))
        return _unjudged(case, "inconclusive", own, ended, error)
    if ended.timed_out:
        halted = ", stopped by a signal" if ended.outside else ""
        reason = f"killed after {ended.seconds:.0f} s, at its time limit, in {_stage(folder)}{halted}"
        process = msgspec.structs.replace(process, error=_printed(folder))
        return _result(case, "timeout", _cut_short(folder, case, info, Verdict("timeout", reason)), ended, process)
    if ended.limit:
        reason = f"killed {ended.limit}, in {_stage(folder)}"
        process = msgspec.structs.replace(process, error=_printed(folder))
        return _result(case, "crash", _cut_short(folder, case, info, Verdict("crash", reason)), ended, process)
    failure = _failure(folder)
    if failure is not None and ended.signal is None and (failure.kind != "refused" or ended.exit == 0):
        outcome: Outcome = failure.kind
        process = msgspec.structs.replace(process, error=failure.error)
        found = () if failure.compiler is None else (compile_failure(failure.compiler),)
        around = fenced(folder) if outcome == "crash" and ILLEGAL in failure.error else None
        if expect_declared and info.declares is not None:
            outcome = expected(outcome, info.declares, found, (), stopped=around is not None)
        reason = failure.summary if around is None else f"{failure.summary} ({around})"
        judged = _cut_short(folder, case, info, Verdict(failure.kind, reason), found)
        return _result(case, outcome, judged, ended, process)
    if ended.exit != 0 or not (folder / EMISSION).exists():
        error = msgspec.structs.replace(process, error=_printed(folder))
        fence = overrun(folder)
        reason = _ending(ended, folder) if fence is None else f"{fence.says}; {_ending(ended, folder)}"
        outcome, found = "crash", () if fence is None else (left_memory(fence),)
        if expect_declared and info.declares is not None:
            outcome = expected(outcome, info.declares, found, (), stopped=fence is not None)
        judged = _cut_short(folder, case, info, Verdict("crash", reason), found)
        return _result(case, outcome, judged, ended, error)
    judged = _judge(folder, case, info)
    outcome = judged.verdict.outcome
    if expect_declared and info.declares is not None:
        outcome = expected(outcome, info.declares, judged.diagnosis, judged.observable)
    return _result(case, outcome, judged, ended, msgspec.structs.replace(process, error=judged.error))


def _no_process(ended: Ended, folder: Path) -> str | None:
    """Why there was no process in which a case could begin, or None."""
    if ended.unstarted:
        return f"its process could not be started: {ended.unstarted}"
    begun = (folder / STAGE).exists() or (folder / UNWRITTEN).exists()
    return "its process could not be set up" if ended.exit == UNSET and not begun else None


def _own_work(ended: Ended, folder: Path) -> str | None:
    """Why a case that did not end well says nothing of its kernel, or None: kvcheck's own work was under way.

    Once the kernel has run, whatever fails may be its doing; but for the time that kvcheck takes.
    """
    stage = _stage(folder)
    if ended.timed_out:
        return None if ended.outside else _own_time(ended, folder)
    if not ended.limit and (folder / UNWRITTEN).exists() and not (folder / EMISSION).exists():
        return "kvcheck could not write what the case had left: is the disk of temporary files full?"
    if stage != PLACING:
        return None
    if ended.limit:
        return f"killed {ended.limit}, in {stage}, before the kernel had run"
    failure = _failure(folder)
    if failure is not None and ended.signal is None:
        return f"kvcheck could not place this case: {failure.summary}"
    return f"{_ending(ended, folder)}, before the kernel had run"


def _own_time(ended: Ended, folder: Path) -> str | None:
    """Why a case whose time is over says nothing of its kernel, or None."""
    stage = _stage(folder)
    if not (folder / STAGE).exists():
        return f"after {ended.seconds:.0f} s it had not begun: its process was still loading the target"
    if not stage.startswith((PLACING, PREPARING, WRITING)):
        return None
    limit = f"its time limit of {ended.seconds:.0f} s was over in {stage}, which is kvcheck's own work"
    return f"{limit}; --timeout gives it more"


def _told(folder: Path) -> str | None:
    failure = _failure(folder)
    return None if failure is None else failure.error


def compile_failure(message: str) -> Diagnosis:
    """The diagnosis of a kernel that the arch's compiler does not take."""
    says = f"the kernel does not compile for this arch: {message}"
    return Diagnosis("compile-failure", "", 0, 0, says, {"compiler": message})


def left_memory(found: Overrun) -> Diagnosis:
    """The diagnosis of a kernel that a fence stopped: what it did there, not yet why. No byte is left to tell that."""
    fault = "stray-write" if found.how == "is written" else "foreign-read"
    sides = {name[0] for name in found.tensors}
    side = sides.pop() if sides in ({"k"}, {"v"}) else ""
    evidence: dict[str, int | float | str | list[int]] = {
        "tensors": ", ".join(found.tensors),
        "side": found.side,
    }
    if found.distance is not None:
        evidence["bytes"] = found.distance
    return Diagnosis(fault, side, 0, 0, found.says, evidence)


def expected(
    outcome: Outcome,
    declared: str,
    diagnosis: tuple[Diagnosis, ...],
    seen: tuple[int, ...],
    *,
    stopped: bool = False,
) -> Outcome:
    """The outcome of a known-bad kernel: xfail where its fault comes first, xpass where it should have shown.

    `stopped`: it died at a fence. Nothing that it stored is left to name a fault by, and dying there is what a fault
    that leads out of a tensor comes to.
    """
    if outcome == "crash" and stopped and declared in LEAVING:
        return "xfail"
    if outcome in ("mismatch", "violation", "crash") and diagnosis and diagnosis[0].fault == declared:
        return "xfail"
    if outcome == "pass" and declared in SLUGS and SLUGS.index(declared) in seen:
        return "xpass"
    return outcome


def not_run(case: Case, outcome: Outcome, reason: str) -> CaseResult:
    """The result of a case that no process was started for."""
    return _result(case, outcome, Judged(Verdict(outcome, reason)), None, ProcessVerdict())


def _judge(folder: Path, case: Case, info: TargetInfo) -> Judged:
    """Judge and diagnose; a mistake in either is kvcheck's, and makes the case inconclusive."""
    try:
        emission = msgspec.msgpack.decode((folder / EMISSION).read_bytes(), type=Emission)
        if (emission.case, emission.contract, emission.form) != (case, info.contract, info.form):
            return Judged(
                Verdict("inconclusive", "the emission is of another case, contract or form than was asked for")
            )
        verdict = judge(emission)
        found, forms = examine(emission, verdict)
        observable, shown = _indices(forms)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not pass and must not stop the run
        reason = f"kvcheck could not judge this emission: {type(error).__name__}: {error}"
        return Judged(Verdict("inconclusive", reason.splitlines()[0]), error=traceback.format_exc())
    return Judged(verdict, found, observable, shown, emission.copies, emission.device)


def _cut_short(
    folder: Path, case: Case, info: TargetInfo, verdict: Verdict, found: tuple[Diagnosis, ...] = ()
) -> Judged:
    """A case that left nothing to judge; where its kernel failed, with what it would have shown where it was placed."""
    none = Judged(verdict, found)
    if verdict.outcome not in ("crash", "timeout"):
        return none
    try:
        scene = msgspec.msgpack.decode((folder / SCENE).read_bytes(), type=Emission)
        if (scene.case, scene.contract, scene.form) != (case, info.contract, info.form):
            return none
        # Of a contract that no case can be judged by nothing would have been shown.
        forms = {} if judge(scene).outcome == "unsupported" else foreseen(scene)
        return Judged(verdict, found, *_indices(forms))
    except Exception:  # noqa: BLE001 - whatever it is: that the kernel failed stands, and must not stop the run
        return none


def _indices(forms: Shown) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A case's `observable`, which points into `SLUGS`, and its `shown`, which points into `FORMS`."""
    names = [name for slug, found in forms.items() for name in form_names(slug, [f for f in found if found[f]])]
    return tuple(SLUGS.index(slug) for slug in ruled_out(forms)), tuple(map(FORMS.index, names))


def _unjudged(case: Case, outcome: Outcome, reason: str, ended: Ended, process: ProcessVerdict) -> CaseResult:
    return _result(case, outcome, Judged(Verdict(outcome, reason)), ended, process)


def _result(case: Case, outcome: Outcome, judged: Judged, ended: Ended | None, process: ProcessVerdict) -> CaseResult:
    verdict = judged.verdict
    return CaseResult(
        id=case_id(case),
        axes=axes_of(case),
        outcome=outcome,
        seconds=round(ended.seconds, 4) if ended else 0.0,
        cold_confirmed=None,
        device=judged.device,
        reason=verdict.reason,
        codes=verdict.codes,
        scales=verdict.scales,
        writes=verdict.writes,
        independence=verdict.independence,
        determinism=verdict.determinism,
        inputs=verdict.inputs,
        copies=judged.copies,
        process=process,
        sanitizer=(),
        tolerance=verdict.tolerance,
        digest=verdict.digest,
        diagnosis=judged.diagnosis,
        observable=judged.observable,
        shown=judged.shown,
    )


def _failure(folder: Path) -> Failure | None:
    """What the child said of itself, where it did."""
    try:
        return msgspec.msgpack.decode((folder / FAILURE).read_bytes(), type=Failure)
    except (OSError, msgspec.MsgspecError):
        return None


def _ending(ended: Ended, folder: Path) -> str:
    if ended.signal is not None:
        return f"killed by {SIGNALS.get(ended.signal, ended.signal)} in {_stage(folder)}"
    if ended.exit == 0:
        return f"exited with status 0 before the case was done, in {_stage(folder)}"
    return f"exited with status {ended.exit} in {_stage(folder)}"


def _stage(folder: Path) -> str:
    try:
        return (folder / STAGE).read_text(encoding="utf-8").strip() or "an unknown stage"
    except OSError:
        return "the child's own start"


def _printed(folder: Path) -> str | None:
    """The last lines of what the process printed to standard error."""
    try:
        with (folder / STDERR).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 16384))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return None
    return "\n".join(text.splitlines()[-LAST_LINES:]) or None
