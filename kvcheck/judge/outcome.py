"""The one word for a case, the worst that applies, and the line that says why."""

from __future__ import annotations

from kvcheck.schema import Outcome, Verdict


def outcome(verdict: Verdict, undecided: str) -> tuple[Outcome, str]:
    """The outcome of a verdict whose channels are filled in, and its reason in one line, empty for a pass.

    `undecided` says what could not be judged, where something could not: never a pass then.
    """
    mismatch, violation = _mismatch(verdict), _violation(verdict)
    if mismatch:
        return "mismatch", "; ".join(mismatch + violation)
    if violation:
        return "violation", "; ".join(violation)
    return ("inconclusive", undecided) if undecided else ("pass", "")


def _mismatch(verdict: Verdict) -> list[str]:
    codes, scales, writes = verdict.codes, verdict.scales, verdict.writes
    found = []
    if codes.wrong:
        found.append(f"{codes.wrong} of {codes.compared} codes wrong (K {codes.k_wrong}, V {codes.v_wrong})")
    elif codes.wrong_any_launch:
        found.append(f"{codes.wrong_any_launch} codes wrong in a later launch, none in the first")
    if scales.wrong:
        found.append(f"{scales.wrong} of {scales.compared} scales wrong, by up to {scales.max_ulp} ulp")
    elif scales.wrong_any_launch:
        found.append(f"{scales.wrong_any_launch} scales wrong in a later launch, none in the first")
    if writes.lost:
        found.append(f"{writes.lost} bytes never stored")
    if writes.stray:
        found.append(f"{writes.stray} bytes changed that were not addressed")
    return found


def _violation(verdict: Verdict) -> list[str]:
    found = []
    if verdict.independence.differs:
        found.append(f"{verdict.independence.differs} bytes depend on memory that the kernel must not read")
    if verdict.determinism.values_drift:
        found.append(f"{verdict.determinism.values_drift} bytes differ between equal launches")
    if verdict.inputs.changed:
        found.append(f"{verdict.inputs.changed} bytes of inputs changed ({', '.join(verdict.inputs.tensors)})")
    return found
