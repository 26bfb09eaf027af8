"""Slots that tokens share: whose row stands there, and what faults say of them, whichever token's row was left."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import ml_dtypes
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge.emulate import COMPUTED, Bytes, Floats, Indices, Memory, amax_scale, e4m3, emulate

from kvcheck.contract import Computed, Contract, Given
from kvcheck.diagnose import diagnose
from kvcheck.diagnose.facts import TENSORS, Facts
from kvcheck.diagnose.judged import judged
from kvcheck.diagnose.sharers import nearest, shared
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis, Emission, Tensor

#: Which of `count` tokens a slot is left with, in each of `heads` heads of a tensor: `[heads]`.
Winner: TypeAlias = Callable[[Tensor, int, int, int], Indices]
#: What is stored of a row of K or V: its codes, and its scales where they are stored.
Made: TypeAlias = Callable[[Tensor, Floats], tuple[Bytes, Floats]]

SHARED = Case(slots="duplicates", heads=3, head_dim=64)
#: The given scales of that case.
SCALES: dict[Tensor, np.float32] = {"k": np.float32(2**-3), "v": np.float32(2**-4)}


def last(tensor: Tensor, slot: int, count: int, heads: int) -> Indices:  # noqa: ARG001 - one signature for all
    """The last token, as a sequential run leaves it."""
    return np.full(heads, count - 1)


def first(tensor: Tensor, slot: int, count: int, heads: int) -> Indices:  # noqa: ARG001
    """The first one."""
    return np.zeros(heads, np.int64)


def tokens(tensor: Tensor, slot: int, count: int, heads: int) -> Indices:  # noqa: ARG001
    """Any token, its whole row of K and V."""
    return np.full(heads, np.random.default_rng(slot).integers(count))


def programs(tensor: Tensor, slot: int, count: int, heads: int) -> Indices:
    """Any token, another one in each head of each tensor."""
    return np.random.default_rng((slot, tensor == "k")).integers(count, size=heads)


WINNERS = (last, first, tokens, programs)


def right(tensor: Tensor, x: Floats) -> tuple[Bytes, Floats]:  # noqa: ARG001
    """A right store's codes and scales."""
    scale = amax_scale(x)
    with np.errstate(invalid="ignore", divide="ignore"):
        return e4m3(x / scale[:, :, None]), scale


class Leaves:
    """A store whose slots hold the rows of the tokens that win; `strides` are what it takes a tensor to have."""

    def __init__(self, winner: Winner, made: Made = right, strides: dict[Tensor, Tensor] | None = None) -> None:
        """`strides` names the tensor whose strides are used for another."""
        self._winner, self._made, self._strides = winner, made, strides or {}

    def __call__(self, memory: Memory) -> None:
        """Store all slots."""
        for tensor in TENSORS:
            x = memory.read(tensor, memory.placement.get(self._strides.get(tensor, tensor)).strides)
            codes, scale = self._made(tensor, x)
            heads = np.arange(x.shape[1])
            for slot in np.unique(memory.slots[memory.slots >= 0]).tolist():
                sharers = np.flatnonzero(memory.slots == slot)
                won = sharers[self._winner(tensor, slot, len(sharers), len(heads))]
                memory.write(f"{tensor}_codes", slot, codes[won, heads])
                if memory.placement.find(f"{tensor}_scales") is not None:
                    memory.write(f"{tensor}_scales", slot, scale[won, heads])


def told(emission: Emission) -> tuple[tuple[Diagnosis, ...], int]:
    """What is said of an emission, and how many of its codes are wrong."""
    verdict = judge(emission)
    return diagnose(emission, verdict), verdict.codes.wrong


def toward_zero(tensor: Tensor, x: Floats) -> tuple[Bytes, Floats]:  # noqa: ARG001
    """Codes cut off, by a right scale."""
    scale = amax_scale(x)
    scaled = np.clip(x / scale[:, :, None], -448, 448)
    codes = scaled.astype(ml_dtypes.float8_e4m3fn)
    over = np.abs(codes.astype(np.float32)) > np.abs(scaled)
    return codes.view(np.uint8) - over.astype(np.uint8), scale


def numbers(tensor: Tensor, x: Floats) -> tuple[Bytes, Floats]:  # noqa: ARG001
    """The scaled value as a whole number, for its code."""
    scale = amax_scale(x)
    return (np.trunc(x / scale[:, :, None]).astype(np.int64) & 0xFF).astype(np.uint8), scale


def lowest_bytes(tensor: Tensor, x: Floats) -> tuple[Bytes, Floats]:  # noqa: ARG001
    """The lower byte of each bf16 element, which says nothing of its sign."""
    return np.ascontiguousarray(x.astype(ml_dtypes.bfloat16)).view(np.uint8)[:, :, ::2], amax_scale(x)


def of_240(tensor: Tensor, x: Floats) -> tuple[Bytes, Floats]:  # noqa: ARG001
    """240 for the largest value."""
    scale = np.asarray(np.abs(x).max(axis=2) / np.float32(240), np.float32)
    return e4m3(x / scale[:, :, None]), scale


FAULTS: dict[str, Made] = {
    "rounding-mode": toward_zero,
    "numeric-store": numbers,
    "reinterpreted-source": lowest_bytes,
    "wrong-max": of_240,
}


@pytest.mark.parametrize("winner", WINNERS)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("count", [7, 8])
def test_a_fault_of_codes_or_scales_is_named_whoever_wins(winner: Winner, fault: str, count: int) -> None:
    """In both tensors, with every wrong code of the verdict explained; also where no slot has one token alone."""
    case = msgspec.structs.replace(SHARED, tokens=count)
    found, wrong = told(emulate(Leaves(winner, FAULTS[fault]), case))
    assert {(each.fault, each.tensor) for each in found} == {(fault, "k"), (fault, "v")}
    assert wrong > 100
    # Where a code is by chance that of another token, what is due there is not that of the row that stands there.
    assert sum(each.explains for each in found) >= 0.97 * wrong
    assert sum(each.of for each in found) <= wrong


@pytest.mark.parametrize("winner", WINNERS)
@pytest.mark.parametrize("v_view", ["dense", "head_padded"])
def test_a_shared_pitch_is_named_whoever_wins(winner: Winner, v_view: str) -> None:
    """K says whose row stands in a slot; where another token's of V does, that one's reading is found to fit."""
    case = msgspec.structs.replace(SHARED, k_view="qkv", v_view=v_view, v_values="normal*0.01")
    (found,), wrong = told(emulate(Leaves(winner, strides={"v": "k"}), case))
    assert (found.fault, found.tensor) == ("sibling-pitch", "v")
    assert found.explains == found.of == wrong > 300


@pytest.mark.parametrize("winner", WINNERS)
def test_a_given_scale_leaves_signs_to_tell(winner: Winner) -> None:
    """No scale is stored: codes that are all wrong still have the signs of the row that stands there."""
    contract = Contract(scale=Given("tensor"))

    def twice(tensor: Tensor, x: Floats) -> tuple[Bytes, Floats]:
        return e4m3((x / SCALES[tensor] / SCALES[tensor]).astype(np.float32)), amax_scale(x)

    found, wrong = told(emulate(Leaves(winner, twice), SHARED, contract))
    assert {(each.fault, each.tensor) for each in found} == {("scale-misapplied", "k"), ("scale-misapplied", "v")}
    assert sum(each.explains for each in found) >= 0.9 * wrong > 1000


@pytest.mark.parametrize("winner", WINNERS)
@pytest.mark.parametrize("contract", [COMPUTED, Contract(scale=Given("tensor"))])
def test_a_right_store_is_named_nothing(winner: Winner, contract: Contract) -> None:
    """Whichever rows win, all are right, and those that stand there are the ones compared."""

    def made(tensor: Tensor, x: Floats) -> tuple[Bytes, Floats]:
        codes, scale = right(tensor, x)
        return (codes, scale) if contract is COMPUTED else (e4m3((x / SCALES[tensor]).astype(np.float32)), scale)

    emission = emulate(Leaves(winner, made), SHARED, contract)
    verdict = judge(emission)
    assert (verdict.outcome, diagnose(emission, verdict)) == ("pass", ())
    facts = Facts(emission, contract, verdict)
    for tensor in TENSORS:
        assert facts.all_right(tensor)
        for row, slot in enumerate(facts.slots[facts.positions(tensor)[:, 0]].tolist()):
            sharers = np.flatnonzero(facts.slots == slot)
            won = sharers[winner(tensor, slot, len(sharers), 3)] if len(sharers) > 1 else np.full(3, sharers[0])
            assert facts.positions(tensor)[row].tolist() == won.tolist()
            assert facts.sources(tensor)[row].tolist() == facts.stored_tokens[won].tolist()


def test_the_verdicts_codes_are_the_ones_that_are_counted() -> None:
    """What is wrong as a diagnosis counts it is what the verdict counts, in codes and in scales."""
    for made in FAULTS.values():
        emission = emulate(Leaves(programs, made), SHARED)
        verdict = judge(emission)
        facts = Facts(emission, COMPUTED, verdict)
        k, v = (judged(facts, tensor) for tensor in TENSORS)
        assert (int((~k.codes).sum()), int((~v.codes).sum())) == (verdict.codes.k_wrong, verdict.codes.v_wrong)
        assert k.scales is not None
        assert int((~k.scales).sum()) == verdict.scales.k_wrong


def test_one_scale_for_all_heads_has_one_token() -> None:
    """Where heads share a scale a slot holds one token's row, and its codes are those of 240 in all heads."""
    contract = Contract(scale=Computed("token"))

    def made(tensor: Tensor, x: Floats) -> tuple[Bytes, Floats]:  # noqa: ARG001
        scale = np.asarray(np.abs(x).max(axis=(1, 2)) / np.float32(240), np.float32)
        return e4m3(x / scale[:, None, None]), np.repeat(scale[:, None], 3, axis=1)

    def kernel(memory: Memory) -> None:
        for tensor in TENSORS:
            codes, scale = made(tensor, memory.read(tensor))
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])
                memory.write(f"{tensor}_scales", slot, scale[token, :1])

    emission = emulate(kernel, SHARED, contract)
    found, wrong = told(emission)
    assert {each.fault for each in found} == {"wrong-max"}
    assert sum(each.explains for each in found) >= 0.97 * wrong > 500


COSTS = st.integers(2, 4).flatmap(
    lambda sharers: st.integers(1, 3).flatmap(
        lambda heads: st.lists(
            st.lists(st.integers(0, 5), min_size=heads, max_size=heads), min_size=2 * sharers, max_size=2 * sharers
        )
    )
)


@given(COSTS)
def test_a_right_row_is_always_taken(costs: list[list[int]]) -> None:
    """A sharer that is right in full is chosen in each head of each tensor where there is one."""
    cost = np.array(costs, np.int64)
    k, v = cost[: len(cost) // 2], cost[len(cost) // 2 :]
    whole, of_k, of_v = nearest(k, v)
    assert 0 <= whole < len(k)
    heads = np.arange(k.shape[1])
    for each, chosen in ((k, of_k), (v, of_v)):
        assert ((each[chosen, heads] == 0) == (each == 0).any(axis=0)).all()


def test_what_says_nothing_leaves_the_last() -> None:
    """Rows that are equally far off, or nearly so, are the last token's; K alone can say whose V is."""
    level = np.array([[60], [62]])
    assert [int(np.ravel(each)[0]) for each in nearest(level, level)] == [1, 1, 1]
    assert [int(np.ravel(each)[0]) for each in nearest(np.array([[0], [60]]), level)] == [0, 0, 0]
    assert [int(np.ravel(each)[0]) for each in nearest(np.array([[0], [60]]), np.array([[60], [0]]))] == [1, 0, 1]
    assert [int(np.ravel(each)[0]) for each in nearest(np.array([[0], [0]]), np.array([[9], [60]]))] == [0, 0, 0]


def test_shared_slots_are_found() -> None:
    """Positions of each slot that more than one token names, ascending; none where all are apart."""
    assert [each.tolist() for each in shared(np.array([5, 2, 5, 7, 2, 5]))] == [[1, 4], [0, 2, 5]]
    assert list(shared(np.array([3, 1, 2]))) == []
    assert list(shared(np.array([], np.int64))) == []
