"""What cannot be judged is said so, and never passes."""

from __future__ import annotations

import msgspec
import pytest

from judge.emulate import COMPUTED, Memory, emulate, store
from kvcheck.contract import Computed, Contract, LoadContract
from kvcheck.judge import judge
from kvcheck.judge.support import contract_reason
from kvcheck.schema import Case, Change, Emission, Launch


def changed(emission: Emission, index: int, **fields: object) -> Emission:
    """Return the emission with fields of one launch replaced."""
    launches = list(emission.launches)
    launches[index] = msgspec.structs.replace(launches[index], **fields)
    return msgspec.structs.replace(emission, launches=tuple(launches))


@pytest.mark.parametrize(
    ("pick", "reason"),
    [((), "0 launches"), ((0, 1), "2 launches"), ((0, 1, 1), "3 launches"), ((0, 1, 2, 2), "4 launches")],
)
def test_missing_or_other_launches_are_inconclusive(pick: tuple[int, ...], reason: str) -> None:
    """Three launches, or four, each with its own prefill and poison, or nothing is judged."""
    emission = emulate()
    verdict = judge(msgspec.structs.replace(emission, launches=tuple(emission.launches[index] for index in pick)))
    assert verdict.outcome == "inconclusive"
    assert verdict.reason.startswith(reason)
    assert "\n" not in verdict.reason
    assert verdict.codes.compared == 0
    assert (verdict.digest is None) == (not pick)


@pytest.mark.parametrize("rows", [{}, {"k_codes": b""}, "shorter", "more"])
def test_rows_that_do_not_fit_are_inconclusive(rows: dict[str, bytes] | str) -> None:
    """A missing tensor, one too many, or a byte too few."""
    emission = emulate()
    whole = emission.launches[2].rows
    if rows == "shorter":
        rows = {**whole, "v_scales": whole["v_scales"][:-1]}
    elif rows == "more":
        rows = {**whole, "out_k": b""}
    verdict = judge(changed(emission, 2, rows=rows))
    assert verdict.outcome == "inconclusive"
    assert verdict.reason.startswith("launch 3 holds rows of ")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Change(1, 0, b"a"), "launch 1: a change in allocation 1, of 1"),
        (Change(-1, 0, b"a"), "launch 1: a change in allocation -1, of 1"),
        (Change(0, -1, b"a"), "launch 1: a change at bytes -1 to 0 of "),
        (Change(0, 10**9, b"ab"), "launch 1: a change at bytes 1000000000 to 1000000002 of "),
    ],
)
def test_changes_outside_the_allocations_are_inconclusive(change: Change, reason: str) -> None:
    """A change that lies in no allocation was not seen by anyone."""
    verdict = judge(changed(emulate(), 0, changes=(change,)))
    assert verdict.outcome == "inconclusive"
    assert verdict.reason.startswith(reason)


def test_contracts_that_cannot_be_judged_are_unsupported() -> None:
    """A scale computed over tokens, and what the arithmetic itself does not know."""
    assert "per head" in contract_reason(Contract(scale=Computed("head")))
    assert "per tensor" in contract_reason(Contract(scale=Computed("tensor")))
    assert contract_reason(Contract(scale=None, ulps=1000)) == ""
    assert "99 ulps" in contract_reason(Contract(scale=Computed(), apply="divide_approx", ulps=99))
    assert contract_reason(COMPUTED) == ""
    approximate = Contract(scale=Computed(), apply="divide_approx", ulps=99)
    verdict = judge(msgspec.structs.replace(emulate(), contract=approximate))
    assert (verdict.outcome, verdict.reason) == ("unsupported", contract_reason(approximate))
    assert verdict.digest is not None
    verdict = judge(msgspec.structs.replace(emulate(), contract=LoadContract()))
    assert (verdict.outcome, verdict.reason) == ("inconclusive", "the placement has no output tensors")


@pytest.mark.parametrize("policy", ["undefined", "refuse"])
def test_negative_slots_that_are_not_skipped_are_unsupported(policy: str) -> None:
    """Only `skip` says which bytes a launch with negative slots leaves."""
    contract = msgspec.structs.replace(COMPUTED, negative_slots=policy)
    verdict = judge(emulate(case=Case(slots="negative_mixed"), contract=contract))
    assert (verdict.outcome, verdict.codes.compared) == ("unsupported", 0)
    assert f"negative_slots='{policy}'" in verdict.reason
    assert judge(emulate(contract=contract)).outcome == "pass"


def test_the_worst_channel_makes_the_outcome() -> None:
    """A mismatch and a violation in one case: `mismatch`, and the reason names both."""

    def kernel(memory: Memory) -> None:
        store(memory)
        memory.flip("k", 0)
        memory.flip("v_codes", -1)

    verdict = judge(emulate(kernel))
    assert verdict.outcome == "mismatch"
    assert verdict.reason == "1 bytes changed that were not addressed; 1 bytes of inputs changed (k)"


def test_launches_are_what_the_emission_says() -> None:
    """The emulator makes them as the judge expects them."""
    made: tuple[Launch, ...] = emulate(launches=4).launches
    assert [(launch.prefill, launch.poison) for launch in made] == [("A", "A"), ("B", "B"), ("C", "A"), ("A", "A")]
