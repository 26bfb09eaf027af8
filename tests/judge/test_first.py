"""Where the first condemned byte of each channel lies, and the counts of K and of V beside it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from judge.emulate import COMPUTED, Memory, amax_scale, emulate, store
from kvcheck.addresses import extent
from kvcheck.contract import Computed, Contract, Form
from kvcheck.draw.image import case_inputs, images
from kvcheck.judge import judge
from kvcheck.judge.first import Part, first_stored
from kvcheck.schema import Case, Emission, FirstByte, FirstScale

PERMUTED = Case(slots="permuted")


def before(emission: Emission, name: str, index: int) -> int:
    """The byte `index` bytes after a tensor's first, before launch 1."""
    placed = emission.placement.get(name)
    made = images(emission.placement, emission.case, emission.contract, "A", "A")
    return int(made[placed.allocation][placed.offset + index])


def test_the_first_wrong_scale_is_named_with_its_token_head_and_slot() -> None:
    """Two of V's scales doubled, the later head first in memory order: the first by token, then head."""

    def kernel(memory: Memory) -> None:
        store(memory)
        for token, head in ((5, 0), (2, 1)):
            scale = amax_scale(memory.read("v"))[token]
            scale[head] *= np.float32(2)
            memory.write("v_scales", int(memory.slots[token]), scale)

    emission = emulate(kernel, PERMUTED)
    verdict = judge(emission)
    right = float(np.frombuffer(emulate(case=PERMUTED).launches[0].rows["v_scales"], np.float32)[2 * 3 + 1])
    slots = case_inputs(emission.placement, PERMUTED, COMPUTED).slots
    first = verdict.scales.first
    assert first is not None
    assert (verdict.scales.k_wrong, verdict.scales.v_wrong, verdict.scales.wrong) == (0, 2, 2)
    assert (first.tensor, first.token, first.head, first.block, first.launch) == ("v", 2, 1, None, 1)
    assert first.slot == slots[2] != 2
    assert (first.got, first.want, first.ulps) == (2 * right, right, 1 << 23)


def test_a_scale_of_a_whole_token_has_no_head() -> None:
    """One scale a token: neither head nor block is named. A NaN is not a number that JSON has."""

    def kernel(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = np.asarray(np.abs(x).max(axis=(1, 2)) / np.float32(448), np.float32)
            scale[3] = np.nan if tensor == "k" else scale[3]
            for token, slot in enumerate(memory.slots):
                memory.write(f"{tensor}_scales", int(slot), scale[token : token + 1])

    verdict = judge(emulate(kernel, contract=Contract(scale=Computed("token"))))
    first = verdict.scales.first
    assert isinstance(first, FirstScale)
    assert (first.tensor, first.token, first.head, first.block, first.got) == ("k", 3, None, None, None)
    assert first.want is not None
    assert (verdict.scales.k_wrong, verdict.scales.v_wrong) == (1, 0)


def test_a_later_launch_is_named() -> None:
    """A scale that is wrong in launch 2 alone: none in launch 1, and the first says where it stood."""

    def kernel(memory: Memory) -> None:
        store(memory)
        if memory.launch == 2:
            memory.write("k_scales", int(memory.slots[0]), amax_scale(memory.read("k"))[0] * np.float32(2))

    verdict = judge(emulate(kernel))
    assert (verdict.scales.wrong, verdict.scales.k_wrong, verdict.scales.wrong_any_launch) == (0, 0, 3)
    assert verdict.scales.first is not None
    assert verdict.scales.first.launch == 2
    assert verdict.codes.first is None


def test_the_first_lost_byte_is_shown_with_what_was_due() -> None:
    """Row 3 of V is put back: its first code lies at (token 3, head 0, dim 0); the prefill stands there."""

    def kernel(memory: Memory) -> None:
        row = memory.row("v_codes", int(memory.slots[3]))
        store(memory)
        memory.write("v_codes", int(memory.slots[3]), row)

    emission = emulate(kernel)
    verdict = judge(emission)
    stood = np.frombuffer(emission.launches[0].rows["v_codes"], np.uint8).reshape(8, 3, 128)[3, 0, 0]
    due = np.frombuffer(emulate().launches[0].rows["v_codes"], np.uint8).reshape(8, 3, 128)[3, 0, 0]
    assert (verdict.writes.k_lost, verdict.writes.v_lost) == (0, 384)
    first = verdict.writes.first_lost
    assert first is not None
    assert (first.tensor, first.token, first.head, first.dim) == ("v_codes", 3, 0, 0)
    assert (first.got, first.want, first.outside) == (int(stood), int(due), False)


def test_a_lost_byte_of_a_scale_is_shown_within_its_number() -> None:
    """Byte 2 of K's scale of (token 1, head 2) is put back."""

    def kernel(memory: Memory) -> None:
        slot = int(memory.slots[1])
        stood = memory.row("k_scales", slot)
        store(memory)
        row = memory.row("k_scales", slot)
        row[2 * 4 + 2] = stood[2 * 4 + 2]
        memory.write("k_scales", slot, row)

    first = judge(emulate(kernel, launches=4)).writes.first_lost
    right = emulate().launches[0].rows["k_scales"][(1 * 3 + 2) * 4 + 2]
    assert first is not None
    assert (first.tensor, first.token, first.head, first.dim, first.byte) == ("k_scales", 1, 2, None, 2)
    assert first.want == right


@pytest.mark.parametrize("tensor", ["k", "v"])
def test_a_stray_byte_in_another_slot_is_named(tensor: str) -> None:
    """Slot 0 is not addressed: its first byte is the cache's, and says what stood there."""

    def kernel(memory: Memory) -> None:
        store(memory)
        memory.flip(f"{tensor}_codes", 5)

    emission = emulate(kernel)
    verdict = judge(emission)
    stood = before(emission, f"{tensor}_codes", 5)
    assert verdict.writes.first_stray == FirstByte(
        f"{tensor}_codes", stood ^ 0xFF, stood, head=0, dim=5, slot=0, offset=5
    )
    assert (verdict.writes.k_stray, verdict.writes.v_stray) == ((1, 0) if tensor == "k" else (0, 1))


def test_a_stray_byte_in_a_guard_is_told_from_the_nearest_tensor() -> None:
    """Three bytes before V's codes: outside, at offset -3 of them."""

    def kernel(memory: Memory) -> None:
        store(memory)
        memory.flip("v_codes", -3)

    emission = emulate(kernel)
    verdict = judge(emission)
    first = verdict.writes.first_stray
    assert first is not None
    assert (first.tensor, first.outside, first.offset, first.slot) == ("v_codes", True, -3, None)
    assert first.want == before(emission, "v_codes", -3)
    assert (verdict.writes.stray, verdict.writes.k_stray, verdict.writes.v_stray) == (1, 0, 1)


def test_the_first_stray_byte_is_the_lowest_in_whatever_order_changes_come() -> None:
    """Two bytes of slot 0, the emission's changes turned round: the one at offset 5."""

    def kernel(memory: Memory) -> None:
        store(memory)
        memory.flip("k_codes", 5)
        memory.flip("k_codes", 9)

    emission = emulate(kernel)
    turned = tuple(
        msgspec.structs.replace(launch, changes=tuple(reversed(launch.changes))) for launch in emission.launches
    )
    for made in (emission, msgspec.structs.replace(emission, launches=turned)):
        first = judge(made).writes.first_stray
        assert first is not None
        assert (first.dim, first.offset, first.launch) == (5, 5, 1)


def test_the_first_changed_byte_of_an_input_is_named() -> None:
    """The second byte of the third element of K's last row, in the launch that changed it."""
    case = Case()

    def kernel(memory: Memory) -> None:
        store(memory)
        if memory.launch == 2:
            memory.flip("k", extent(memory.placement.get("k"))[1] - memory.placement.get("k").offset - 1)

    verdict = judge(emulate(kernel, case))
    first = verdict.inputs.first
    assert first is not None
    assert (first.tensor, first.token, first.head, first.dim, first.byte) == ("k", 7, 2, 127, 1)
    assert (first.launch, first.outside) == (2, False)
    assert first.want is not None
    assert first.got == first.want ^ 0xFF


def test_a_changed_slot_id_is_named_by_its_token() -> None:
    """Slots have one axis: the token's."""

    def kernel(memory: Memory) -> None:
        store(memory)
        memory.flip("slots", 8 * 3)

    first = judge(emulate(kernel)).inputs.first
    assert first is not None
    assert (first.tensor, first.token, first.head, first.byte) == ("slots", 3, None, 0)


def test_bytes_that_follow_poison_and_bytes_that_drift_are_named() -> None:
    """A legal scale one ulp up in launch 2: K's bytes, the first with both values. In launch 4: determinism's."""
    loose = Contract(scale=Computed("token_head", derive="divide_approx"), apply="divide_approx")

    def nudged(launch: int) -> Emission:
        def kernel(memory: Memory) -> None:
            store(memory)
            if memory.launch == launch:
                scale = amax_scale(memory.read("k"))[1]
                scale[2] = np.nextafter(scale[2], np.float32(np.inf))
                memory.write("k_scales", int(memory.slots[1]), scale)

        return emulate(kernel, contract=loose, launches=4 if launch == 4 else 3)

    for launch in (2, 4):
        emission = nudged(launch)
        verdict = judge(emission)
        channel = verdict.independence if launch == 2 else verdict.determinism
        first = channel.first
        assert first is not None
        assert (first.tensor, first.token, first.head, first.launch) == ("k_scales", 1, 2, launch)
        rows = emission.launches[launch - 1].rows["k_scales"]
        where = (1 * 3 + 2) * 4 + first.byte
        assert (first.got, first.want) == (rows[where], emission.launches[0].rows["k_scales"][where])
        assert first.got != first.want
    assert (verdict.determinism.k_drift, verdict.determinism.v_drift) == (verdict.determinism.values_drift, 0)


def test_compared_codes_are_counted_for_each_tensor() -> None:
    """K and V of unlike head_dim, no code left out."""
    verdict = judge(emulate(case=Case(head_dim_v=64), contract=COMPUTED, form=Form()))
    assert (verdict.codes.k_compared, verdict.codes.v_compared) == (3072, 1536)


def test_a_mark_beyond_all_parts_is_a_mistake() -> None:
    """More marks than bytes: nothing is made up."""
    mask = np.ones(2, np.bool_)
    empty = Part("k_codes", (0, 3, 4, 1), np.zeros(0, np.int64), np.zeros(0, np.int64))
    with pytest.raises(IndexError, match="byte 0 of 0"):
        first_stored([empty], mask, np.zeros(2, np.uint8), np.zeros(2, np.uint8), 1)
