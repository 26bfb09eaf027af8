"""What the trials of a case that a fence stopped come to, without running any."""

from __future__ import annotations

import msgspec
import pytest

from kvcheck.contract import Accepts, Computed, Contract, Form
from kvcheck.memory.place import place
from kvcheck.run.astray import Trial, Trials, eliminations, known, overrun_by, stopped, stopped_unseen, traced
from kvcheck.run.protocol import TargetInfo
from kvcheck.run.result import not_run
from kvcheck.schema import Case, CaseResult, Diagnosis, Outcome, ProcessVerdict

CASE = Case(layout="fence", tokens=2)
CONTRACT = Contract(scale=Computed("token_head"))
PLACEMENT = place(CASE, CONTRACT, Form(), Accepts(), cuda=False)
INFO = TargetInfo("made-up", "store", CONTRACT, Accepts(), Form(), (), None, "00", None, "native")
DECLARED = msgspec.structs.replace(INFO, declares="sibling-pitch")
ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
CAUSE = Diagnosis("sibling-pitch", "v", 3, 4, "V is read with token pitch 9 (K's); declared 3", {"sibling": "k"})
LEFT = Diagnosis("foreign-read", "v", 0, 0, "v is read 1 byte past its end", {"side": "end"})

ALLOCATIONS = range(len(PLACEMENT.allocations))
V = PLACEMENT.get("v").allocation


def _result(outcome: Outcome, *, error: str | None = None, diagnosis: tuple[Diagnosis, ...] = ()) -> CaseResult:
    made = not_run(CASE, outcome, "why")
    return msgspec.structs.replace(made, process=ProcessVerdict(0, None, error), diagnosis=diagnosis)


def _trials(free: CaseResult | None, *dying: int) -> Trials:
    alone = {index: _result("crash", error=ILLEGAL) if index in dying else _result("mismatch") for index in ALLOCATIONS}
    return Trials(None, free, alone)


@pytest.mark.parametrize(
    ("result", "seen", "unseen"),
    [
        (_result("crash", error=ILLEGAL), True, True),
        (_result("xfail", error=ILLEGAL), True, True),
        (_result("crash", diagnosis=(LEFT,)), True, False),
        (_result("crash", error="ValueError"), False, False),
        (_result("mismatch", error=ILLEGAL), False, False),
        (_result("pass"), False, False),
    ],
)
def test_what_was_stopped_is_told_by_what_was_left(result: CaseResult, *, seen: bool, unseen: bool) -> None:
    """An address next to a tensor, or CUDA's words; and only in a layout that has fences."""
    assert (stopped(CASE, result), stopped_unseen(result)) == (seen, unseen)
    assert not stopped(msgspec.structs.replace(CASE, layout="exact"), result)


def test_trials_are_the_case_itself_with_fewer_fences_or_in_a_known_layout() -> None:
    """One with no fence, one for each allocation, and one in the arena with all that it has."""
    none, *alone = eliminations(7, CASE, PLACEMENT)
    assert none == Trial(7, CASE, ())
    assert alone == [Trial(7, CASE, (index,)) for index in ALLOCATIONS]
    assert known(7, CASE) == Trial(7, msgspec.structs.replace(CASE, layout="arena"), None)


def test_results_are_kept_by_what_was_fenced() -> None:
    """Each where `traced` looks for it."""
    trials = Trials()
    results = [_result("pass"), _result("mismatch"), _result("violation")]
    for trial, result in zip((known(0, CASE), Trial(0, CASE, ()), Trial(0, CASE, (2,))), results, strict=True):
        trials.take(trial, result)
    assert (trials.known, trials.free, trials.alone) == (results[0], results[1], {2: results[2]})


def test_the_fence_that_stops_it_alone_tells_the_tensor() -> None:
    """V's, past its end; of two that do both are named, in the placement's order."""
    found = overrun_by(_trials(_result("mismatch"), V), PLACEMENT)
    assert found is not None
    assert (found.tensors, found.side) == (("v",), "end")
    assert found.says == "v is overrun past its end, where nothing is mapped"
    k = PLACEMENT.get("k").allocation
    both = overrun_by(_trials(_result("pass"), V, k), PLACEMENT)
    assert both is not None
    assert set(both.tensors) == {"k", "v"}


@pytest.mark.parametrize("free", [None, _result("crash"), _result("timeout"), _result("inconclusive")])
def test_nothing_is_told_where_it_dies_without_a_fence(free: CaseResult | None) -> None:
    """Or where it is not known whether it does."""
    assert overrun_by(_trials(free, V), PLACEMENT) is None


def test_the_cause_comes_before_the_tensor() -> None:
    """Both with their evidence; the outcome stays, and the reason keeps what it said."""
    trials = _trials(_result("mismatch"), V)
    trials.known = _result("mismatch", diagnosis=(CAUSE,))
    result = traced(_result("crash", error=ILLEGAL), trials, PLACEMENT, INFO)
    cause, left = result.diagnosis
    assert (cause.says, cause.evidence) == (f"{CAUSE.says}, in layout arena", {"sibling": "k", "layout": "arena"})
    assert (cause.explains, cause.of) == (CAUSE.explains, CAUSE.of)
    assert (left.fault, left.tensor, left.evidence) == ("foreign-read", "v", {"tensors": "v", "side": "end"})
    says = "v is overrun past its end, where nothing is mapped: with this fence alone the case dies as well"
    assert (result.outcome, result.reason) == ("crash", f"{says}, with none it does not; why")


def test_a_known_address_stays_what_was_said_of_it() -> None:
    """On the CPU the signal told it, and nothing was fenced one at a time."""
    trials = Trials(known=_result("mismatch", diagnosis=(CAUSE,)))
    result = traced(_result("crash", diagnosis=(LEFT,)), trials, PLACEMENT, INFO)
    assert [found.fault for found in result.diagnosis] == ["sibling-pitch", "foreign-read"]
    assert (result.diagnosis[1], result.reason) == (LEFT, "why")


@pytest.mark.parametrize(
    ("trials", "says"),
    [
        (_trials(_result("crash", error=ILLEGAL), V), "it dies without any fence as well"),
        (_trials(_result("pass")), "no fence alone stops it"),
    ],
)
def test_what_stays_open_is_said(trials: Trials, says: str) -> None:
    """No tensor is named."""
    result = traced(_result("crash", error=ILLEGAL), trials, PLACEMENT, INFO)
    assert (result.diagnosis, result.reason.startswith(f"why; {says}")) == ((), True)


def test_an_overrun_that_changes_no_byte_is_said_to_be_one() -> None:
    """A vector that is loaded past the end, say, and of which that part is not used: still a crash."""
    result = traced(_result("crash", diagnosis=(LEFT,)), Trials(known=_result("pass")), PLACEMENT, INFO)
    assert (result.outcome, result.diagnosis) == ("crash", (LEFT,))
    assert result.reason == "why; in layout arena, where memory follows every tensor, this case passes"


def test_a_declared_fault_that_the_known_layout_names_is_expected() -> None:
    """And only that one; nobody who declared nothing is excused."""
    trials = Trials(known=_result("xfail", diagnosis=(CAUSE,)))
    assert traced(_result("crash", diagnosis=(LEFT,)), trials, PLACEMENT, DECLARED).outcome == "xfail"
    assert traced(_result("crash", diagnosis=(LEFT,)), trials, PLACEMENT, INFO).outcome == "crash"
    trials = Trials(known=_result("mismatch", diagnosis=(CAUSE,)))
    assert traced(_result("crash", diagnosis=(LEFT,)), trials, PLACEMENT, DECLARED).outcome == "crash"
    assert traced(_result("crash", diagnosis=(LEFT,)), Trials(), PLACEMENT, DECLARED).outcome == "crash"
