"""Channels 1 and 2: wrong, legal and exact codes and scales, with their counts."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from judge.emulate import COMPUTED, Bytes, Floats, Memory, amax_scale, e4m3, emulate, given_store, store
from kvcheck.contract import Computed, Contract, Given
from kvcheck.judge import judge
from kvcheck.judge.scales import agree, distance
from kvcheck.schema import Case


def spoilt(
    tensor: str, positions: list[tuple[int, int, int]], launches: tuple[int, ...] = (1, 2, 3, 4)
) -> Callable[[Memory], None]:
    """Return a right kernel but for the lowest bit of some codes, at (token, head, dim), in some launches."""

    def kernel(memory: Memory) -> None:
        store(memory)
        if memory.launch not in launches:
            return
        _, _, heads, dim = memory.placement.get(f"{tensor}_codes").dims
        for token, head, element in positions:
            slot = int(memory.slots[token])
            row = memory.row(f"{tensor}_codes", slot).reshape(heads, dim).copy()
            row[head, element] ^= 1
            memory.write(f"{tensor}_codes", slot, row)

    return kernel


def rescaled(tensor: str, change: Callable[[Floats], Floats], *, follow: bool) -> Callable[[Memory], None]:
    """Return a kernel whose stored scales of one tensor are changed, and its codes with them where they `follow`."""

    def kernel(memory: Memory) -> None:
        store(memory)
        x = memory.read(tensor)
        scale = change(amax_scale(x))
        codes: Bytes = e4m3(x / scale[:, :, None])
        for token, slot in enumerate(memory.slots.tolist()):
            memory.write(f"{tensor}_scales", slot, scale[token])
            if follow:
                memory.write(f"{tensor}_codes", slot, codes[token])

    return kernel


def test_wrong_codes_are_counted_by_tensor() -> None:
    """Three codes one step off are three wrong codes, in every launch; the first is named in full."""
    verdict = judge(emulate(spoilt("v", [(2, 1, 5), (2, 1, 6), (7, 2, 127)])))
    codes = verdict.codes
    assert (verdict.outcome, codes.wrong, codes.k_wrong, codes.v_wrong) == ("mismatch", 3, 0, 3)
    assert (codes.wrong_any_launch, codes.wrong_given_emitted, codes.compared) == (3, 3, 6144)
    first = codes.first
    assert first is not None
    assert (first.tensor, first.token, first.head, first.dim, first.slot) == ("v", 2, 1, 5, 5)
    assert first.got == first.want ^ 1
    assert first.x is not None
    assert first.scale is not None
    assert e4m3(np.array([first.x], np.float32) / np.float32(first.scale))[0] == first.want
    assert verdict.reason == "3 of 6144 codes wrong (K 0, V 3)"


def test_the_first_wrong_code_is_ks_before_vs() -> None:
    """The order is tensor, token, head, dim."""

    def kernel(memory: Memory) -> None:
        spoilt("v", [(0, 0, 0)])(memory)
        row = memory.row("k_codes", int(memory.slots[3])).copy()
        row[200] ^= 1
        memory.write("k_codes", int(memory.slots[3]), row)

    first = judge(emulate(kernel)).codes.first
    assert first is not None
    assert (first.tensor, first.token, first.head, first.dim) == ("k", 3, 1, 72)


def test_a_code_wrong_in_a_later_launch_is_a_mismatch() -> None:
    """Launch 1 is clean and nothing is wrong in it; the second has two wrong codes, and one of them is the first."""
    verdict = judge(emulate(spoilt("k", [(1, 0, 0), (4, 0, 0)], launches=(2,))))
    assert (verdict.outcome, verdict.codes.wrong, verdict.codes.wrong_any_launch) == ("mismatch", 0, 2)
    assert verdict.codes.first is not None
    assert verdict.codes.first.token == 1
    assert verdict.determinism.positions_drift == 2
    # Condemned bytes are left out of what comes later.
    assert verdict.independence.differs == 0
    assert verdict.reason == "2 codes wrong in a later launch, none in the first"


def test_codes_that_follow_a_wrong_scale_are_judged_by_the_right_one() -> None:
    """A scale twice too large, with codes to match: right given the emitted scale, wrong given the right one."""
    verdict = judge(emulate(rescaled("k", lambda scale: scale * np.float32(2), follow=True)))
    assert (verdict.scales.wrong, verdict.scales.wrong_any_launch, verdict.scales.max_ulp) == (24, 24, 1 << 23)
    assert verdict.codes.wrong_given_emitted == 0
    assert verdict.codes.k_wrong > 2900
    assert verdict.codes.v_wrong == 0
    assert verdict.reason.endswith("24 of 48 scales wrong, by up to 8388608 ulp")


def test_right_codes_beside_a_wrong_scale_are_right() -> None:
    """Only the scales are wrong where the codes go by the right one; given the emitted scale the codes are wrong."""
    verdict = judge(emulate(rescaled("v", lambda scale: scale * np.float32(2), follow=False)))
    assert (verdict.outcome, verdict.codes.wrong, verdict.scales.wrong) == ("mismatch", 0, 24)
    assert verdict.codes.wrong_given_emitted > 2900


def test_a_scale_off_by_one_ulp_is_wrong_unless_an_error_is_declared() -> None:
    """One ulp is wrong under `divide` and legal under `divide_approx`, and codes then go by the emitted scale."""
    kernel = rescaled("k", lambda scale: np.nextafter(scale, np.float32(1)), follow=True)
    strict = judge(emulate(kernel))
    assert (strict.outcome, strict.scales.wrong, strict.scales.legal, strict.scales.max_ulp) == ("mismatch", 24, 0, 1)
    assert strict.codes.wrong_given_emitted == 0
    rule = Computed("token_head", derive="divide_approx")
    loose = judge(emulate(kernel, contract=msgspec.structs.replace(COMPUTED, scale=rule)))
    assert (loose.outcome, loose.scales.wrong, loose.scales.legal, loose.scales.max_ulp) == ("pass", 0, 24, 1)
    assert (loose.codes.wrong, loose.codes.legal) == (0, 0)


def test_a_code_on_the_other_side_of_a_near_tie_is_legal_where_an_error_is_declared() -> None:
    """A value one ulp below a tie may be rounded up by an approximate division; two steps up is wrong anyhow."""
    # 17 lies halfway between the codes of 16 and 18.
    scale = np.float32(2.0**-3)
    tie_below = np.nextafter(np.float32(17.0 * scale), np.float32(0))

    def stepped(step: int) -> Callable[[Memory], None]:
        def kernel(memory: Memory) -> None:
            given_store(float(scale), float(scale))(memory)
            x = memory.read("k")
            for token, head, dim in np.argwhere(x == tie_below).tolist():
                row = memory.row("k_codes", int(memory.slots[token])).reshape(x.shape[1:]).copy()
                row[head, dim] += np.uint8(step)
                memory.write("k_codes", int(memory.slots[token]), row)

        return kernel

    contract = Contract(scale=Given("tensor", shared=True), apply="divide_approx")
    case = Case(dtype="fp32", k_values="midpoints*2^-3", tokens=4)
    up, far = (judge(emulate(stepped(step), case, contract)) for step in (1, 2))
    exact = judge(emulate(stepped(1), case, msgspec.structs.replace(contract, apply="divide")))
    assert up.outcome == "pass"
    assert up.codes.legal > 0
    assert far.codes.wrong == exact.codes.wrong == up.codes.legal
    assert far.codes.legal == 0


def test_nan_scales_agree_whatever_their_payload() -> None:
    """A NaN is right where the rule gives NaN, wrong elsewhere; -0 and 0 are different bits with no distance."""
    quiet, loud = (np.array([bits], np.uint32).view(np.float32) for bits in (0x7FC00000, 0xFFC00001))
    one = np.ones(1, np.float32)
    zero = np.zeros(1, np.float32)
    assert agree(quiet, loud).all()
    assert distance(quiet, loud).tolist() == [0]
    assert not agree(quiet, one).any()
    assert not agree(zero, -zero).any()
    assert distance(zero, -zero).tolist() == [0]
    assert distance(-one, one).tolist() == [2 * 0x3F800000]


@pytest.mark.parametrize(("granularity", "groups"), [("token", 1), ("block:32", 12)])
def test_other_granularities_are_judged(granularity: str, groups: int) -> None:
    """A scale a token, and one a block of 32 elements: each counted, each able to fail."""
    rule = Computed(granularity)

    def kernel(memory: Memory, factor: float = 1.0) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            parts = x.reshape(len(x), groups, -1)
            scale = (np.abs(parts).max(axis=2) / np.float32(448)).astype(np.float32)
            codes = e4m3(parts / scale[:, :, None])
            scale[2, 0] *= np.float32(factor)
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])
                memory.write(f"{tensor}_scales", slot, scale[token])

    contract = Contract(scale=rule)
    right = judge(emulate(kernel, contract=contract))
    assert (right.outcome, right.scales.compared, right.codes.compared) == ("pass", 16 * groups, 6144)
    wrong = judge(emulate(lambda memory: kernel(memory, 2.0), contract=contract))
    assert (wrong.outcome, wrong.scales.wrong, wrong.codes.wrong) == ("mismatch", 2, 0)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "ue8m0"])
def test_scales_of_other_types_are_read_as_such(dtype: str) -> None:
    """Scales stored in 16 bits, or as a power of two in 8: exact where rounded as the rule says, wrong one step on."""
    rule = msgspec.convert({"type": "computed", "dtype": dtype}, Computed)
    contract = Contract(scale=rule)

    def stored(scale: Floats) -> tuple[Bytes, Floats]:
        if dtype == "ue8m0":
            exponent = np.ceil(np.log2(scale)).astype(np.int32)
            return (exponent + 127).astype(np.uint8), np.exp2(exponent).astype(np.float32)
        if dtype == "fp16":
            return scale.astype(np.float16).view(np.uint8), scale.astype(np.float16).astype(np.float32)
        bits = scale.view(np.uint32)
        kept = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return kept.view(np.uint8), (kept.astype(np.uint32) << 16).view(np.float32)

    def kernel(memory: Memory, step: int = 0) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            raw, scale = stored(amax_scale(x))
            codes = e4m3(x / scale[:, :, None])
            raw = raw.reshape(len(x), -1).copy()
            raw[0, 0] += np.uint8(step)
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])
                memory.write(f"{tensor}_scales", slot, raw[token])

    right = judge(emulate(kernel, contract=contract))
    assert (right.outcome, right.scales.compared) == ("pass", 48)
    wrong = judge(emulate(lambda memory: kernel(memory, 1), contract=contract))
    assert (wrong.outcome, wrong.scales.wrong) == ("mismatch", 2)
