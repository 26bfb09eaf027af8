"""Channels 3 and 6: bytes never stored, bytes that were nobody's to change, inputs that changed."""

from __future__ import annotations

import numpy as np
import pytest

from judge.emulate import Memory, emulate, store
from kvcheck.addresses import extent
from kvcheck.contract import Form
from kvcheck.judge import judge
from kvcheck.schema import Case


def without_token(memory: Memory, token: int, tensors: tuple[str, ...]) -> None:
    """Store everything, then put back what stood in the row of one token."""
    before = {name: memory.row(name, int(memory.slots[token])) for name in tensors}
    store(memory)
    for name, row in before.items():
        memory.write(name, int(memory.slots[token]), row)


def test_a_token_that_is_never_stored_is_lost() -> None:
    """All its codes and scale bytes are lost, and neither compared nor wrong."""
    names = ("k_codes", "v_codes", "k_scales", "v_scales")
    verdict = judge(emulate(lambda memory: without_token(memory, 3, names)))
    assert (verdict.outcome, verdict.writes.lost) == ("mismatch", 2 * 3 * 128 + 2 * 3 * 4)
    assert (verdict.codes.compared, verdict.codes.wrong) == (6144 - 768, 0)
    assert (verdict.scales.compared, verdict.scales.wrong) == (42, 0)
    assert verdict.reason == "792 bytes never stored"


def test_a_lost_scale_leaves_its_codes_to_be_judged_by_the_right_one() -> None:
    """The prefill that stands where a scale should is no scale: codes beside it are compared, and right."""
    verdict = judge(emulate(lambda memory: without_token(memory, 0, ("v_scales",))))
    assert (verdict.writes.lost, verdict.scales.compared, verdict.scales.wrong) == (12, 45, 0)
    assert (verdict.codes.compared, verdict.codes.wrong, verdict.codes.wrong_given_emitted) == (6144, 0, 0)


def test_a_scale_of_which_one_byte_is_lost_is_not_compared() -> None:
    """One byte is lost, and the scale that it belongs to is left out."""

    def kernel(memory: Memory) -> None:
        slot = int(memory.slots[2])
        before = memory.row("k_scales", slot)
        store(memory)
        row = memory.row("k_scales", slot)
        row[5] = before[5]
        memory.write("k_scales", slot, row)

    verdict = judge(emulate(kernel, launches=4))
    assert (verdict.writes.lost, verdict.scales.compared, verdict.scales.wrong) == (1, 47, 0)
    # The scale's other bytes are condemned with it: neither channel counts them again.
    assert (verdict.independence.differs, verdict.determinism.positions_drift) == (0, 0)


def test_a_byte_that_equals_one_prefill_was_stored() -> None:
    """A stored code may equal one prefill by chance; lost are bytes that equal all three."""
    emission = emulate()
    stored = np.frombuffer(emission.launches[0].rows["k_codes"], np.uint8)
    untouched = emulate(lambda _: None)
    prefill = np.frombuffer(untouched.launches[0].rows["k_codes"], np.uint8)
    assert (stored == prefill).any()
    assert judge(emission).writes.lost == 0
    nothing = judge(untouched)
    assert (nothing.writes.lost, nothing.codes.compared, nothing.scales.compared) == (6144 + 192, 0, 0)


def test_stray_bytes_are_counted_once_over_all_launches() -> None:
    """A guard's byte and an unaddressed row's, changed in every launch or in one: each position is one stray byte."""

    def kernel(memory: Memory) -> None:
        store(memory)
        memory.flip("k_codes", -1)
        memory.flip("k_codes", 0)  # slot 0: not addressed
        if memory.launch == 2:
            memory.flip("v_codes", -7)

    verdict = judge(emulate(kernel))
    assert (verdict.outcome, verdict.writes.stray, verdict.inputs.changed) == ("mismatch", 3, 0)
    assert verdict.reason == "3 bytes changed that were not addressed"


def test_a_padding_byte_behind_an_inline_scale_is_stray() -> None:
    """A row's pad is not addressed, though it lies between two rows that are."""

    def kernel(memory: Memory) -> None:
        store(memory)
        memory.flip("k_codes", 4 * (128 + 8) * 3 + 128 + 4)

    assert judge(emulate(kernel, form=Form(scales="inline", inline_pad=4))).writes.stray == 1


@pytest.mark.parametrize(("name", "count"), [("k", 2), ("v", 2), ("slots", 8)])
def test_changed_inputs_are_counted_and_named(name: str, count: int) -> None:
    """Bytes of K, V or the slots that changed are a violation, and no stray bytes."""

    def kernel(memory: Memory) -> None:
        store(memory)
        for index in range(count):
            memory.flip(name, index)

    verdict = judge(emulate(kernel))
    assert (verdict.outcome, verdict.writes.stray) == ("violation", 0)
    assert (verdict.inputs.changed, verdict.inputs.tensors) == (count, (name,))
    assert verdict.reason == f"{count} bytes of inputs changed ({name})"


def test_gaps_between_the_rows_of_a_view_belong_to_no_input() -> None:
    """In a qkv tensor the byte before K's first is Q's: stray. V's first byte is an input's."""
    case = Case(k_view="qkv", v_view="qkv")

    def kernel(memory: Memory) -> None:
        store(memory)
        memory.flip("k", -1)
        memory.flip("v", 0)

    emission = emulate(kernel, case)
    assert emission.placement.get("k").allocation == emission.placement.get("v").allocation
    assert extent(emission.placement.get("k"))[0] < extent(emission.placement.get("v"))[0]
    verdict = judge(emission)
    assert (verdict.writes.stray, verdict.inputs.changed, verdict.inputs.tensors) == (1, 1, ("v",))


def test_positions_of_different_allocations_are_different() -> None:
    """The same offset in two allocations is two positions: one stray, one an input's."""

    def kernel(memory: Memory) -> None:
        store(memory)
        memory.flip("k_codes", 0)
        memory.flip("k", 0)

    emission = emulate(kernel, Case(layout="pooled"))
    assert len(emission.placement.allocations) > 1
    verdict = judge(emission)
    assert (verdict.writes.stray, verdict.inputs.changed) == (1, 1)
