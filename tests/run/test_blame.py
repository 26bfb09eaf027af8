"""Suspects: what they come to when they are run once more, alone and behind the same cases."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from kvcheck.run.blame import ALONE, BEHIND, blame, order_dependent, same
from kvcheck.run.result import not_run
from kvcheck.schema import Case, CaseResult, CodesVerdict, Digest, Outcome


def _passing(case: Case, outcome: Outcome = "pass") -> CaseResult:
    return msgspec.structs.replace(
        not_run(case, outcome, ""), codes=CodesVerdict(compared=1), digest=Digest("aa", "bb")
    )


def test_equal_bytes_and_outcomes_are_the_same() -> None:
    """The time a case took does not matter."""
    one = msgspec.structs.replace(_passing(Case()), digest=Digest("aa", "bb"))
    assert same(one, msgspec.structs.replace(one, seconds=9.0))
    assert not same(one, msgspec.structs.replace(one, digest=Digest("aa", "cc")))
    assert not same(one, msgspec.structs.replace(one, outcome="mismatch"))


@pytest.mark.parametrize(
    ("outcome", "reason", "says"),
    [
        ("pass", "", "run behind aa, bb in one process it stores other bytes, though right ones"),
        ("mismatch", "3 codes wrong", "run behind aa, bb in one process it ends as mismatch: 3 codes wrong"),
        ("refused", "", "run behind aa, bb in one process it ends as refused"),
    ],
)
def test_the_sentence_says_which_case_and_what_ran_before_it(outcome: Outcome, reason: str, says: str) -> None:
    """A violation; an expected failure where it is the fault that a known-bad kernel declares."""
    other = not_run(Case(), outcome, reason)
    result = order_dependent(_passing(Case()), other, ["aa", "bb"], declared=False)
    (diagnosis,) = result.diagnosis
    assert (result.outcome, diagnosis.fault) == ("violation", "order-dependent")
    assert diagnosis.says == f"passes in a process of its own; {says}"
    assert result.reason == f"order-dependent: {diagnosis.says}"
    assert order_dependent(_passing(Case()), other, ["aa"], declared=True).outcome == "xfail"


CASES = [Case(seed=seed) for seed in range(4)]
RIGHT = [_passing(case) for case in CASES]
WRONG = msgspec.structs.replace(not_run(CASES[3], "mismatch", "3 codes wrong"), digest=Digest("aa", "cc"))


class Played:
    """Runs of which the last case comes out as a list says, one after the other; the others pass."""

    def __init__(self, *ends: CaseResult | None) -> None:
        """`ends` in the order in which they are asked for."""
        self.ends = list(ends)
        self.asked: list[list[int]] = []

    def run(self, sequences: Sequence[Sequence[int]]) -> list[list[CaseResult | None]]:
        """As `Desk.run`."""
        self.asked += [list(sequence) for sequence in sequences]
        return [[*(RIGHT[number] for number in sequence[:-1]), self.ends.pop(0)] for sequence in sequences]


def _blamed(*ends: CaseResult | None) -> tuple[CaseResult, Played]:
    """What becomes of case 3, which was wrong behind cases 0, 1 and 2."""
    found, played = list(RIGHT), Played(*ends)
    blame(played, {3: ([0, 1, 2], WRONG)}, found, declared=False)
    assert not played.ends
    assert found[:3] == RIGHT[:3]
    return found[3], played


KEEPS, CHANGES = [RIGHT[3]] * ALONE, [WRONG] * BEHIND


def test_a_case_that_keeps_its_bytes_alone_and_never_behind_others_depends_on_order() -> None:
    """The one that is enough to change it is named."""
    found, played = _blamed(*KEEPS, *CHANGES, RIGHT[3], WRONG, RIGHT[3])
    assert (found.outcome, found.diagnosis[0].fault) == ("violation", "order-dependent")
    assert found.diagnosis[0].evidence["before"] == RIGHT[1].id
    assert played.asked == [[3]] * ALONE + [[0, 1, 2, 3]] * BEHIND + [[0, 3], [1, 3], [2, 3]]


def test_where_no_one_case_is_enough_all_are_named() -> None:
    """Also where pairs did not come to an end."""
    found, _ = _blamed(*KEEPS, *CHANGES, RIGHT[3], None, RIGHT[3])
    assert found.diagnosis[0].evidence["before"] == ", ".join(one.id for one in RIGHT[:3])


@pytest.mark.parametrize("at", range(ALONE))
def test_a_case_that_changes_alone_too_is_not_deterministic(at: int) -> None:
    """No matter what it does behind others: order is not what it depends on."""
    found, _ = _blamed(*KEEPS[:at], WRONG, *KEEPS[at + 1 :], *CHANGES)
    assert (found.outcome, found.diagnosis) == ("violation", ())
    assert found.reason.startswith("nondeterministic: passes in process 1, and in process 2 ends as mismatch")


@pytest.mark.parametrize("at", range(BEHIND))
def test_a_case_that_comes_out_right_behind_the_same_cases_is_not_deterministic(at: int) -> None:
    """Once is enough: the order was the same."""
    found, _ = _blamed(*KEEPS, *CHANGES[:at], RIGHT[3], *CHANGES[at + 1 :])
    assert (found.outcome, found.diagnosis) == ("violation", ())
    assert found.reason == (
        "nondeterministic: behind the same cases in one process it ends as mismatch: 3 codes wrong, and then as alone"
    )


@pytest.mark.parametrize(("alone", "behind"), [([None] * ALONE, CHANGES), (KEEPS, [None] * BEHIND)])
def test_a_case_that_cannot_be_run_once_more_is_not_blamed(
    alone: list[CaseResult | None], behind: list[CaseResult | None]
) -> None:
    """Nor is it a pass."""
    found, _ = _blamed(*alone, *behind)
    assert (found.outcome, found.diagnosis) == ("inconclusive", ())
    assert "to tell chance from order" in found.reason


def test_some_processes_that_come_to_nothing_do_not_matter() -> None:
    """As long as one of each kind comes to its end."""
    found, _ = _blamed(*[None] * (ALONE - 1), RIGHT[3], *[None] * (BEHIND - 1), WRONG, WRONG, None, None)
    assert found.diagnosis[0].evidence["before"] == RIGHT[0].id


def test_of_several_suspects_each_is_judged_by_itself() -> None:
    """One is wrong by chance; of those that depend on order the first is told its culprit, the other all before it."""
    found = list(RIGHT)
    wrong = [msgspec.structs.replace(WRONG, id=RIGHT[number].id) for number in range(4)]
    suspects = {1: ([0], wrong[1]), 2: ([0, 1], wrong[2]), 3: ([0, 1, 2], wrong[3])}
    alone = [wrong[1], *[RIGHT[1]] * (ALONE - 1), *[RIGHT[2]] * ALONE, *[RIGHT[3]] * ALONE]
    behind = [*[wrong[1]] * BEHIND, *[wrong[2]] * BEHIND, *[wrong[3]] * BEHIND]
    blame(Played(*alone, *behind, RIGHT[2], wrong[2]), suspects, found, declared=False)
    assert found[1].reason.startswith("nondeterministic")
    assert [one.diagnosis[0].evidence["before"] for one in found[2:]] == [
        RIGHT[1].id, ", ".join(one.id for one in RIGHT[:3]),
    ]  # fmt: skip
