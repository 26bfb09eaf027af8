"""What a pass could have seen: for each fault, the cases that would have shown it."""

from __future__ import annotations

from collections.abc import Sequence

from kvcheck.report.outcomes import JUDGED
from kvcheck.schema import CaseResult


def observable_counts(faults: Sequence[str], cases: Sequence[CaseResult]) -> dict[str, int]:
    """For each fault, the number of judged cases in which it was observable.

    A case that was refused, unsupported, inconclusive or cut short shows only the faults that it was diagnosed with.
    Raises ValueError where a case points outside `faults`.
    """
    counts = dict.fromkeys(faults, 0)
    for case in cases:
        if case.observable and not 0 <= min(case.observable) <= max(case.observable) < len(faults):
            raise ValueError(f"case {case.id}: observable points outside the {len(faults)} faults of the report")
        seen = {faults[index] for index in case.observable} if case.outcome in JUDGED else set()
        seen.update(diagnosis.fault for diagnosis in case.diagnosis)
        for fault in seen & counts.keys():
            counts[fault] += 1
    return counts


def unobservable(faults: Sequence[str], cases: Sequence[CaseResult]) -> tuple[str, ...]:
    """The faults that no case would have shown in each of their forms, in the order of `faults`."""
    counts = observable_counts(faults, cases)
    return tuple(fault for fault in faults if counts[fault] == 0)
