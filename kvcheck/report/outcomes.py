"""The outcomes of a case, worst first, and what each means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kvcheck.schema import CaseResult, Outcome

#: Every outcome with one plain sentence, worst first.
MEANINGS: dict[Outcome, str] = {
    "crash": "the process died or the target raised",
    "timeout": "the process did not end in time",
    "mismatch": "codes, scales or writes are wrong",
    "xpass": "passed, although its declared fault was observable",
    "violation": "reads, repeats, inputs or sanitizer: a promise is broken",
    "inconclusive": "could not be judged",
    "refused": "the target says that it does not take this input",
    "unsupported": "outside what the target declares, or cannot run here",
    "xfail": "failed with the declared fault",
    "pass": "every byte compared is right",
}

#: Worst first.
ORDER: tuple[Outcome, ...] = tuple(MEANINGS)

#: Outcomes that fail a run.
FAILING: frozenset[Outcome] = frozenset({"crash", "timeout", "mismatch", "xpass", "violation"})

#: Outcomes of cases whose bytes were judged, so that a fault observable there would have shown.
JUDGED: frozenset[Outcome] = frozenset({"mismatch", "xpass", "violation", "xfail", "pass"})


def rank(outcome: Outcome) -> int:
    """The place of an outcome in `ORDER`: 0 is the worst."""
    return ORDER.index(outcome)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The worst of some outcomes. Raises ValueError where there is none: nothing is not a pass."""
    return min(outcomes, key=rank)


def count(cases: Iterable[CaseResult]) -> dict[str, int]:
    """How many cases ended in each outcome that occurred, worst first."""
    counts = Counter(case.outcome for case in cases)
    return {outcome: counts[outcome] for outcome in ORDER if outcome in counts}
