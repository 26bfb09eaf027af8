"""Rows read from memory that kvcheck did not fill: their origin may be known, what they hold is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge.emulate import Memory, e4m3, emulate, given_store, store

from diagnose.elsewhere import NOTHING, reads
from kvcheck.contract import Computed, Contract, Form, Given
from kvcheck.diagnose import diagnose
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.image import MASKED, SourceMemory
from kvcheck.diagnose.match import known_rows
from kvcheck.judge import judge
from kvcheck.schema import ITEMSIZE, Case, Diagnosis, Dtype, Emission

Outside: TypeAlias = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.uint8]]

#: K a slice of a fused projection, V a copy, each an allocation of its own with nobody's memory around it.
CASE = Case(k_view="qkv", v_values="normal*0.01", layout="exact")


def garbage(offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Bytes that are no zeros, and others at every offset; as numbers of bf16 they are small."""
    mixed = (offsets.astype(np.uint64) + np.uint64(77)) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)
    low, high = mixed & np.uint64(0xFF), np.uint64(0x3C) + (mixed & np.uint64(1))
    return np.asarray(np.where(offsets % 2 == 1, high, low), np.uint8)


def with_k_pitch(memory: Memory) -> None:
    """Read V with K's token pitch: row 2 is row 6, and from row 3 on nothing of V's is left."""
    own = memory.placement.get("v").strides
    store(memory, {"v": (memory.placement.get("k").strides[0], *own[1:])})


def made(emission: Emission) -> tuple[Diagnosis, ...]:
    """Judge, then diagnose."""
    return diagnose(emission, judge(emission))


@pytest.mark.parametrize("outside", [None, garbage])
def test_a_pitch_is_named_by_the_rows_that_are_known(outside: Outside | None) -> None:
    """Rows 1 and 2 are V's own, the others lie beyond it: they are counted, not explained, nor left to other faults."""
    emission = emulate(with_k_pitch, CASE, outside=outside)
    verdict = judge(emission)
    (found,) = diagnose(emission, verdict)
    known = int(found.explains)
    assert (found.fault, found.tensor, found.of) == ("sibling-pitch", "v", verdict.codes.v_wrong)
    assert 700 < known <= 6 * 128
    assert (found.evidence["rows_explained"], found.evidence["rows_unknown"]) == (6, 15)
    assert "15 of its rows from memory whose bytes are not known" in found.says
    assert "unexplained" not in found.evidence


def test_rows_that_are_all_unknown_are_said_to_be_nothing() -> None:
    """A tensor read from far outside has no known row: neither the reading nor a fault of its codes is named."""
    far = reads(lambda _, __, token, head, dim: 1 << 20 | (token * 384 + head * 128 + dim), ("v",))
    assert made(emulate(far, CASE, outside=garbage)) == ()


def test_a_masked_element_is_known_to_be_zero() -> None:
    """What is masked away lies outside as well, and is no unknown memory."""
    tail = reads(lambda _, __, token, head, dim: np.where(dim < 64, token * 320 + head * 80 + dim, NOTHING))
    found = made(emulate(tail, Case(head_dim=80, heads=4, layout="exact")))
    assert [(each.fault, each.explains == each.of) for each in found] == [("tail-mask", True)] * 2
    assert all("rows_unknown" not in each.evidence for each in found)


@pytest.mark.parametrize(
    ("granularity", "unknown"),
    [
        ("token_head", [(1, 2)]),
        ("block:32", [(1, 2)]),
        ("token", [(1, 0), (1, 1), (1, 2)]),
        ("head", [(0, 2), (1, 2), (2, 2)]),
        ("tensor", [(token, head) for token in range(3) for head in range(3)]),
    ],
)
def test_a_scale_of_unknown_rows_is_unknown_to_all_that_share_it(
    granularity: str, unknown: list[tuple[int, int]]
) -> None:
    """One unknown element leaves no prediction for any row that has its scale."""
    emission = emulate(store, Case(tokens=3))
    contract = Contract(scale=Computed(granularity))
    facts = Facts(emission, contract, judge(emission))
    known = np.ones((3, 3, 128), np.bool_)
    known[1, 2, 7] = False
    assert [tuple(row) for row in np.argwhere(~known_rows(facts, known)).tolist()] == unknown


@given(st.lists(st.integers(-8, 60), min_size=1, max_size=8), st.sampled_from(["bf16", "fp16", "fp32"]))
def test_elements_are_known_whose_bytes_all_lie_in_allocations(addresses: list[int], dtype: Dtype) -> None:
    """Every byte counts; two allocations that touch may share an element; a masked one is known."""
    memory = SourceMemory([np.zeros(size, np.uint8) for size in (5, 6, 10)], [30, 0, 6])
    there = np.array([*addresses, MASKED], np.int64)
    found = memory.known_at(there, dtype)
    inside = {*range(16), *range(30, 35)}
    due = [all(place + byte in inside for byte in range(ITEMSIZE[dtype])) for place in addresses]
    assert (np.ones(len(there), np.bool_) if found is None else found).tolist() == [*due, True]


def test_nothing_is_known_without_an_allocation() -> None:
    """No memory: every element but a masked one is unknown, and of no element all are known."""
    memory = SourceMemory([], [])
    found = memory.known_at(np.array([0, MASKED], np.int64), "bf16")
    assert found is not None
    assert found.tolist() == [False, True]
    assert memory.known_at(np.zeros(0, np.int64), "bf16") is None


def test_given_scales_leave_known_rows_known() -> None:
    """With a given scale every row stands for itself."""

    def run(memory: Memory) -> None:
        given_store(0.125, 0.0625)(memory)
        codes = e4m3(memory.read("v", (1152, 128, 1)) / np.float32(0.0625))
        for token, slot in enumerate(memory.slots):
            memory.write("v_codes", int(slot), codes[token])

    emission = emulate(run, CASE, Contract(scale=Given("tensor")), Form(scales="none"), outside=garbage)
    found = made(emission)
    assert [(each.fault, each.evidence["rows_unknown"]) for each in found] == [("sibling-pitch", 15)]


def test_rows_of_zeros_are_told_by_where_they_stand_and_said_to_be() -> None:
    """In young memory K's pitch leads to zeros behind V: row 0 is right, the other one repeats a code."""
    case = Case(tokens=2, k_view="qkv", v_values="normal*0.01", layout="pooled")
    (found,) = made(emulate(with_k_pitch, case, cuda=False))
    assert (found.fault, found.tensor, found.explains == found.of) == ("sibling-pitch", "v", True)
    assert found.evidence["rows_repeated"] == 3
    assert "each repeats one code, which other causes leave as well" in found.says


def test_rows_of_zeros_that_no_reading_gives_have_no_name() -> None:
    """The first row is zeros, the second right: the pitch of K leaves the reverse."""

    def run(memory: Memory) -> None:
        store(memory)
        slot = int(memory.slots[0])
        memory.write("v_codes", slot, np.zeros((3, 128), np.uint8))
        memory.write("v_scales", slot, np.zeros(3, np.float32))

    case = Case(tokens=2, k_view="qkv", v_values="normal*0.01", layout="pooled")
    assert made(emulate(run, case, cuda=False)) == ()
