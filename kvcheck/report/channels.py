"""Which of a verdict's channels failed, and a plain sentence for each."""

from __future__ import annotations

from kvcheck.report import axes
from kvcheck.report.firsts import first_byte, first_code, first_scale
from kvcheck.report.plain import number, one_line
from kvcheck.report.traces import raised
from kvcheck.schema import CaseResult, CodesVerdict


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


def process(case: CaseResult) -> str:
    """How the process of a crash or timeout ended."""
    ended = case.process
    if case.outcome == "timeout":
        return one_line(case.reason) or "the process did not end in time"
    if ended.signal and case.reason:  # what it printed last is the list of its modules, or its own business
        return one_line(case.reason)
    said = raised(ended.error) or one_line(case.reason)
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
        parts.append(f"first: {first_code(codes.first)}")
    return "; ".join(parts)


def _counts(case: CaseResult, codes: CodesVerdict) -> str:
    """Wrong codes of K and of V out of what was compared, the tensor with wrong ones first."""
    if codes.wrong == 0:
        return f"0 of {codes.compared} codes wrong in launch 1"
    if codes.k_wrong + codes.v_wrong != codes.wrong:
        return f"{codes.wrong} of {codes.compared} codes wrong"
    wrong = {"K": codes.k_wrong, "V": codes.v_wrong}
    one, other = ("K", "V") if codes.k_wrong else ("V", "K")
    total = {"K": codes.k_compared, "V": codes.v_compared}
    if sum(total.values()) != codes.compared:  # a report of before these were counted
        every = axes.complete(case)
        rows = int(every["tokens"]) * int(every["heads"])
        total = {"K": rows * int(every["head_dim"]), "V": rows * int(every["head_dim_v"])}
    if sum(total.values()) != codes.compared:  # rows were skipped, or codes left out: whose, such a report doesn't say
        return f"{wrong[one]} {one} codes wrong, {wrong[other]} {other}, of {codes.compared} compared"
    return f"{wrong[one]} of {total[one]} {one} codes wrong, {wrong[other]} of {total[other]} {other}"


def _scales(case: CaseResult) -> str:
    """Wrong scales of each tensor, how far the worst is off, and the first."""
    scales = case.scales
    text = f"{scales.wrong} of {number(scales.compared, 'scale')} wrong{_split(scales.k_wrong, scales.v_wrong)}"
    if scales.wrong_any_launch > scales.wrong:
        text += f", {scales.wrong_any_launch} over all launches"
    if scales.max_ulp:
        text += f", the worst {scales.max_ulp} ulp off"
    return f"{text}; first: {first_scale(scales.first)}" if scales.first else text


def _writes(case: CaseResult) -> str:
    """Bytes not stored, and bytes stored where none were due; the first of each."""
    writes = case.writes
    parts = []
    if writes.lost:
        lost = f"{number(writes.lost, 'byte')} due but never stored{_split(writes.k_lost, writes.v_lost)}"
        parts.append(lost + (f"; first: {first_byte(writes.first_lost, 'was due')}" if writes.first_lost else ""))
    if writes.stray:
        stray = f"{number(writes.stray, 'byte')} changed outside the addressed rows"
        stray += _split(writes.k_stray, writes.v_stray)
        parts.append(
            stray + (f"; first: {first_byte(writes.first_stray, 'stood there')}" if writes.first_stray else "")
        )
    return "; ".join(parts)


def _independence(case: CaseResult) -> str:
    """Stored bytes that follow memory the kernel must not read, and the first."""
    found = case.independence
    text = f"{number(found.differs or 0, 'stored byte')} changed with memory that must not be read"
    text += _split(found.k_differs, found.v_differs)
    return f"{text}; first: {first_byte(found.first, 'in launch 1')}" if found.first else text


def _determinism(case: CaseResult) -> str:
    """What differed between launches that should agree, and the first."""
    drift = case.determinism
    parts = (
        [f"{number(drift.positions_drift, 'position')} wrong in some launches only"] if drift.positions_drift else []
    )
    if drift.values_drift:
        changed = f"{number(drift.values_drift, 'byte')} changed between equal launches"
        parts.append(changed + _split(drift.k_drift, drift.v_drift))
    text = f"{', '.join(parts)} ({number(drift.launches, 'launch', 'launches')})"
    return f"{text}; first: {first_byte(drift.first, 'in launch 1')}" if drift.first else text


def _inputs(case: CaseResult) -> str:
    """Input bytes that the target changed, whose, and the first."""
    whose = ", ".join(one_line(name) for name in case.inputs.tensors)
    text = f"{number(case.inputs.changed, 'input byte')} changed{' in ' + whose if whose else ''}"
    return f"{text}; first: {first_byte(case.inputs.first, 'stood there')}" if case.inputs.first else text


def _split(k: int, v: int) -> str:
    """How many are K's and how many V's; empty where that is not known."""
    return f" (K {k}, V {v})" if k or v else ""


def _sanitizer(case: CaseResult) -> str:
    """How many records, and the first."""
    return f"{number(len(case.sanitizer), 'sanitizer record')}; first: {one_line(case.sanitizer[0])}"
