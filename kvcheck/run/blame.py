"""Cases that ended otherwise behind others: whether they depend on those, or on chance; and on which of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from kvcheck.run.repeated import with_repetition
from kvcheck.schema import CaseResult, Diagnosis, Outcome

#: Processes that run a suspect once more: by itself, and behind the same cases. One that is wrong by chance would have
#: to be right in all of the first and wrong in all of the others: once in 200 times where chance is worst, at 3 in 8.
ALONE, BEHIND = 4, 2

SLUG = "order-dependent"


class Runs(Protocol):
    """What runs cases in processes of several."""

    def run(self, sequences: Sequence[Sequence[int]]) -> list[list[CaseResult | None]]:
        """What comes of each case in each process, None where it did not run there to its end."""


def same(result: CaseResult, other: CaseResult) -> bool:
    """Whether a case has passed in two processes, with the same bytes."""
    return (result.outcome, result.digest) == (other.outcome, other.digest)


def blame(
    runs: Runs, suspects: Mapping[int, tuple[list[int], CaseResult]], found: list[CaseResult], *, declared: bool
) -> None:
    """Put into `found` what each suspect is: it came out otherwise behind the cases given with it.

    The first that depends on order is told which one case makes it so. `declared`: that is the fault that a known-bad
    kernel declares. Raises NurseryLostError.
    """
    alone = _last_of_each(runs.run([[number] for number in suspects for _ in range(ALONE)]), ALONE)
    behind = _last_of_each(
        runs.run([[*before, number] for number, (before, _) in suspects.items() for _ in range(BEHIND)]), BEHIND
    )
    left = {}
    for suspect, by_itself, again in zip(suspects.items(), alone, behind, strict=True):
        number, (before, other) = suspect
        settled = _settled(found[number], other, by_itself, again)
        if settled is None:
            left[number] = before, other
        else:
            found[number] = settled
    for number, (before, other) in left.items():
        culprits = before if number != next(iter(left)) else _culprits(runs, before, number, found[number])
        found[number] = order_dependent(found[number], other, [found[one].id for one in culprits], declared=declared)


def _settled(
    result: CaseResult, other: CaseResult, alone: Sequence[CaseResult], behind: Sequence[CaseResult]
) -> CaseResult | None:
    """The result of a case that does not depend on order, or not for certain; None where it does."""
    unlike = next((again for again in alone if not same(result, again)), None)
    if unlike is not None:
        return with_repetition(result, unlike, 2)
    if any(same(result, again) for again in behind):
        reason = f"nondeterministic: behind the same cases in one process it {_ends(other)}, and then as alone"
        return msgspec.structs.replace(result, outcome="violation", reason=reason)
    if not alone or not behind:
        reason = (
            f"behind others in one process it {_ends(other)}, and could not be run once more to tell chance from order"
        )
        return msgspec.structs.replace(result, outcome="inconclusive", reason=reason)
    return None


def _culprits(runs: Runs, before: Sequence[int], number: int, result: CaseResult) -> Sequence[int]:
    """The one case that is enough to change another, or all that ran before it."""
    pairs = zip(before, _last_of_each(runs.run([[one, number] for one in before]), 1), strict=True)
    return next(([one] for one, ended in pairs if ended and not same(result, ended[0])), before)


def _last_of_each(ran: Sequence[Sequence[CaseResult | None]], size: int) -> list[list[CaseResult]]:
    """What came of the last case of each process, by so many processes; without those in which it did not end."""
    ends = [results[-1] for results in ran]
    return [[end for end in ends[at : at + size] if end is not None] for at in range(0, len(ends), size)]


def order_dependent(alone: CaseResult, other: CaseResult, before: Sequence[str], *, declared: bool) -> CaseResult:
    """The result of a case that passes alone, and does not, or not with the same bytes, behind the cases `before`."""
    says = f"passes in a process of its own; run behind {', '.join(before)} in one process it {_ends(other)}"
    outcome: Outcome = "xfail" if declared else "violation"
    evidence: dict[str, int | float | str | list[int]] = {"before": ", ".join(before), "outcome": other.outcome}
    return msgspec.structs.replace(
        alone, outcome=outcome, reason=f"{SLUG}: {says}", diagnosis=(Diagnosis(SLUG, "", 0, 0, says, evidence),)
    )


def _ends(other: CaseResult) -> str:
    if other.outcome == "pass":
        return "stores other bytes, though right ones"
    return f"ends as {other.outcome}{f': {other.reason}' if other.reason else ''}"
