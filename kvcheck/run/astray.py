"""Cases that a fence stopped, run again: which tensor was overrun, and what the kernel does there.

A process that dies at a fence leaves no byte to name a cause by, and CUDA does not even say where it died. So the same
case runs once more where memory follows every tensor, and its bytes name the cause; and on a GPU with one tensor
fenced at a time, and with none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from kvcheck.memory.fences import FENCES
from kvcheck.memory.overrun import Overrun
from kvcheck.run.protocol import TargetInfo
from kvcheck.run.result import ILLEGAL, left_memory
from kvcheck.schema import Case, CaseResult, Diagnosis, Placement

#: The layout of which kvcheck knows every byte around the tensors.
KNOWN = "arena"

#: Cases of one target, that are run again to find out which tensor was overrun, at most: each takes a run a tensor.
MOST = 16

STOPPED = frozenset({"crash", "xfail"})


@dataclass(frozen=True)
class Trial:
    """One more run of a case: in a known layout, or with fences at some allocations alone."""

    number: int
    case: Case
    fenced: tuple[int, ...] | None = None


@dataclass
class Trials:
    """What the trials of one case came to; None where there was none."""

    known: CaseResult | None = None
    free: CaseResult | None = None
    """With no fence anywhere."""
    alone: dict[int, CaseResult] = field(default_factory=dict)
    """By the one allocation that had a fence."""

    def take(self, trial: Trial, result: CaseResult) -> None:
        """Keep a trial's result."""
        if trial.fenced is None:
            self.known = result
        elif not trial.fenced:
            self.free = result
        else:
            self.alone[trial.fenced[0]] = result


def stopped_unseen(result: CaseResult) -> bool:
    """Whether CUDA stopped a case for an illegal access, of which it does not say the address."""
    return ILLEGAL in (result.process.error or "") and result.outcome in STOPPED


def stopped(case: Case, result: CaseResult) -> bool:
    """Whether a fence may have stopped a case."""
    if case.layout not in FENCES or result.outcome not in STOPPED:
        return False
    return stopped_unseen(result) or any("side" in found.evidence for found in result.diagnosis)


def known(number: int, case: Case) -> Trial:
    """The same case where memory follows every tensor."""
    return Trial(number, msgspec.structs.replace(case, layout=KNOWN))


def eliminations(number: int, case: Case, placement: Placement) -> list[Trial]:
    """The case with no fence, and with each of its fences alone."""
    alone = [Trial(number, case, (index,)) for index in range(len(placement.allocations))]
    return [Trial(number, case, ()), *alone]


def traced(result: CaseResult, trials: Trials, placement: Placement, info: TargetInfo) -> CaseResult:
    """A stopped case's result with what its trials say: the cause first, then the tensor that was overrun."""
    who, where = result.diagnosis, result.reason
    if trials.alone:
        over = overrun_by(trials, placement)
        if over is None:
            where = f"{where}; {_undecided(trials)}"
        else:
            who = (left_memory(over),)
            where = f"{over.says}: with this fence alone the case dies as well, with none it does not; {where}"
    cause = () if trials.known is None else tuple(map(_elsewhere, trials.known.diagnosis))
    if trials.known is not None and trials.known.outcome == "pass":
        where = f"{where}; in layout {KNOWN}, where memory follows every tensor, this case passes"
    outcome = result.outcome
    if outcome == "crash" and info.declares is not None and trials.known is not None:
        outcome = trials.known.outcome if trials.known.outcome == "xfail" else outcome
    return msgspec.structs.replace(result, outcome=outcome, reason=where, diagnosis=(*cause, *who))


def overrun_by(trials: Trials, placement: Placement) -> Overrun | None:
    """The tensors whose fence stops the case alone, where it runs to its end without one. None where that is open."""
    if trials.free is None or trials.free.outcome in ("crash", "timeout", "inconclusive"):
        return None
    ones = [index for index, result in sorted(trials.alone.items()) if stopped_unseen(result)]
    names = tuple(tensor.name for tensor in placement.tensors if tensor.allocation in ones)
    return Overrun(names, "is overrun", FENCES[placement.layout], None) if names else None


def _undecided(trials: Trials) -> str:
    if trials.free is not None and stopped_unseen(trials.free):
        return "it dies without any fence as well, so the fences do not tell which tensor was left"
    return "no fence alone stops it, so they do not tell which tensor was left"


def _elsewhere(found: Diagnosis) -> Diagnosis:
    """A cause that the bytes of another layout named."""
    evidence: Mapping[str, int | float | str | list[int]] = {**found.evidence, "layout": KNOWN}
    return msgspec.structs.replace(found, says=f"{found.says}, in layout {KNOWN}", evidence=dict(evidence))
