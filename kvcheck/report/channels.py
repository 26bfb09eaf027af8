"""Which of a verdict's channels failed, and a plain sentence for each."""

from __future__ import annotations

from kvcheck.report import axes
from kvcheck.report.plain import number, one_line
from kvcheck.schema import CaseResult, CodesVerdict, FirstWrong


def failed_channels(case: CaseResult) -> tuple[str, ...]:
    """The names of the channels in which a case failed, in the order of the verdict's channels."""
    codes, scales, writes = case.codes, case.scales, case.writes
    failed = {
        "codes": codes.wrong or codes.wrong_any_launch,
        "scales": scales.wrong or scales.wrong_any_launch,
        "writes": writes.lost or writes.stray,
        "independence": case.independence.differs,
        "determinism": case.determinism.values_drift,
        "inputs": case.inputs.changed,
        "process": case.outcome in ("crash", "timeout"),
        "sanitizer": case.sanitizer,
    }
    return tuple(name for name, what in failed.items() if what)


def findings(case: CaseResult) -> str:
    """One plain sentence of every channel that failed, with its numbers, worst first; empty where none did."""
    say = {
        "codes": _codes,
        "scales": _scales,
        "writes": _writes,
        "independence": _independence,
        "determinism": _determinism,
        "inputs": _inputs,
        "process": process,
        "sanitizer": _sanitizer,
    }
    failed = failed_channels(case)
    first = ("process",) if "process" in failed else ()
    return "; ".join(say[name](case) for name in (*first, *(name for name in failed if name != "process")))


def first_wrong(first: FirstWrong) -> str:
    """Where the first wrong code lies, what stands there, and what should."""
    digits = next(digits for digits in (2, 4, 8, 16) if max(first.got, first.want) < 16**digits)
    values = [f"{name} = {value:.9g}" for name, value in (("x", first.x), ("scale", first.scale)) if value is not None]
    place = f"{first.tensor.upper()} token {first.token} head {first.head} dim {first.dim} slot {first.slot}"
    codes = f"got 0x{first.got:0{digits}X}, want 0x{first.want:0{digits}X}"
    return f"{place}: {codes}{' (' + ', '.join(values) + ')' if values else ''}"


def last_line(error: str | None) -> str:
    """The last line of a traceback or of what a process printed: the exception, by Python's custom."""
    lines = [line for line in (error or "").splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else ""


def process(case: CaseResult) -> str:
    """How the process of a crash or timeout ended."""
    ended = case.process
    if case.outcome == "timeout":
        return one_line(case.reason) or "the process did not end in time"
    if ended.signal and case.reason:  # what it printed last is the list of its modules, or its own business
        return one_line(case.reason)
    said = last_line(ended.error) or one_line(case.reason)
    how = f"killed by {one_line(ended.signal)}" if ended.signal else ""
    if not how and ended.exit:
        how = f"exit {ended.exit}"
    return ": ".join(part for part in (how, said) if part) or "the process died and said nothing"


def _codes(case: CaseResult) -> str:
    """Wrong codes of each tensor, then the first."""
    codes = case.codes
    parts = [_counts(case, codes)]
    if codes.wrong_any_launch > codes.wrong:
        parts.append(f"{codes.wrong_any_launch} over all launches")
    if codes.first is not None:
        parts.append(f"first: {first_wrong(codes.first)}")
    return "; ".join(parts)


def _counts(case: CaseResult, codes: CodesVerdict) -> str:
    """Wrong codes of K and of V out of what was compared, the tensor with wrong ones first."""
    if codes.wrong == 0:
        return f"0 of {codes.compared} codes wrong in launch 1"
    if codes.k_wrong + codes.v_wrong != codes.wrong:
        return f"{codes.wrong} of {codes.compared} codes wrong"
    wrong = {"K": codes.k_wrong, "V": codes.v_wrong}
    one, other = ("K", "V") if codes.k_wrong else ("V", "K")
    every = axes.complete(case)
    rows = int(every["tokens"]) * int(every["heads"])
    total = {"K": rows * int(every["head_dim"]), "V": rows * int(every["head_dim_v"])}
    if (
        total["K"] + total["V"] != codes.compared
    ):  # rows were skipped, or codes left out: whose, the verdict doesn't say
        return f"{wrong[one]} {one} codes wrong, {wrong[other]} {other}, of {codes.compared} compared"
    return f"{wrong[one]} of {total[one]} {one} codes wrong, {wrong[other]} of {total[other]} {other}"


def _scales(case: CaseResult) -> str:
    """Wrong scales, and how far the worst is off."""
    scales = case.scales
    text = f"{scales.wrong} of {number(scales.compared, 'scale')} wrong"
    if scales.wrong_any_launch > scales.wrong:
        text += f", {scales.wrong_any_launch} over all launches"
    return f"{text}, the worst {scales.max_ulp} ulp off" if scales.max_ulp else text


def _writes(case: CaseResult) -> str:
    """Bytes not stored, and bytes stored where none were due."""
    lost, stray = case.writes.lost, case.writes.stray
    parts = [f"{number(lost, 'byte')} due but never stored"] if lost else []
    if stray:
        parts.append(f"{number(stray, 'byte')} changed outside the addressed rows")
    return ", ".join(parts)


def _independence(case: CaseResult) -> str:
    """Stored bytes that follow memory the kernel must not read."""
    return f"{number(case.independence.differs or 0, 'stored byte')} changed with memory that must not be read"


def _determinism(case: CaseResult) -> str:
    """What differed between launches that should agree."""
    drift = case.determinism
    parts = (
        [f"{number(drift.positions_drift, 'position')} wrong in some launches only"] if drift.positions_drift else []
    )
    if drift.values_drift:
        parts.append(f"{number(drift.values_drift, 'byte')} changed between equal launches")
    return f"{', '.join(parts)} ({number(drift.launches, 'launch', 'launches')})"


def _inputs(case: CaseResult) -> str:
    """Input bytes that the target changed."""
    whose = ", ".join(one_line(name) for name in case.inputs.tensors)
    return f"{number(case.inputs.changed, 'input byte')} changed{' in ' + whose if whose else ''}"


def _sanitizer(case: CaseResult) -> str:
    """How many records, and the first."""
    return f"{number(len(case.sanitizer), 'sanitizer record')}; first: {one_line(case.sanitizer[0])}"
