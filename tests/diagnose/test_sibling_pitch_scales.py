"""`sibling-pitch` under every kind of scale: given, computed by any granularity, approximate, or none."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from judge.emulate import COMPUTED, Memory, amax_scale, e4m3, emulate, given_store, store

from kvcheck.contract import Computed, Contract, Form, Given
from kvcheck.diagnose import diagnose, observable
from kvcheck.diagnose.sibling_pitch import SiblingPitch
from kvcheck.draw import values
from kvcheck.judge import judge
from kvcheck.schema import Case

from .pitch import SEED, diagnosed, with_k_pitch

#: No other fault is asked.
pytestmark = pytest.mark.usefixtures("sibling_pitch_alone")

V_BY_K, K_BY_V = SiblingPitch.forms


@pytest.mark.parametrize("contract", [Contract(scale=Given("tensor")), Contract(scale=Given("head", dtype="fp16"))])
def test_given_scales_are_predicted_with(contract: Contract) -> None:
    """Without a scale in the cache the codes alone name the fault."""
    assert isinstance(contract.scale, Given)
    per_head = contract.scale.granularity == "head"

    def kernel(memory: Memory) -> None:
        given_store(1, 1)(memory)
        for tensor, base in (("k", 2**-3), ("v", 2**-4)):
            strides = (memory.placement.get("k").strides[0], *memory.placement.get(tensor).strides[1:])
            scale = np.array([base, 2 * base, base / 2] if per_head else [base] * 3, np.float32)
            codes = e4m3(memory.read(tensor, strides) / scale[:, None])
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])

    (found,) = diagnosed(emulate(kernel, Case(k_view="qkv"), contract))
    assert (found.tensor, found.explains, found.evidence["scales_explained"]) == ("v", found.of, 0)


def test_rows_stored_as_they_are_are_predicted_too() -> None:
    """A contract without a scale."""

    def kernel(memory: Memory) -> None:
        for tensor in ("k", "v"):
            codes = e4m3(memory.read(tensor, memory.placement.get("k").strides))
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])

    (found,) = diagnosed(emulate(kernel, Case(k_view="qkv"), Contract(scale=None)))
    assert found.explains == found.of


@pytest.mark.parametrize("granularity", ["token", "block:32"])
def test_other_granularities_are_predicted(granularity: str) -> None:
    """A scale of the whole token, and one a block."""
    blocks = 1 if granularity == "token" else 12

    def kernel(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor, memory.placement.get("k").strides)
            parts = x.reshape(len(x), blocks, -1)
            scale = (np.abs(parts).max(axis=2) / np.float32(448)).astype(np.float32)
            codes = e4m3(parts / scale[:, :, None])
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])
                memory.write(f"{tensor}_scales", slot, scale[token])

    emission = emulate(kernel, Case(k_view="qkv"), Contract(scale=Computed(granularity)))
    verdict = judge(emission)
    (found,) = diagnose(emission, verdict)
    assert (found.explains, found.evidence["scales_explained"]) == (verdict.codes.v_wrong, verdict.scales.wrong)
    assert 7 * blocks - 3 <= verdict.scales.wrong <= 7 * blocks


def test_wrong_scales_alone_are_explained() -> None:
    """Rows of one repeated magnitude have the same codes whatever their size: the scales tell the rows apart."""

    def kernel(memory: Memory) -> None:
        store(memory)
        strides = (memory.placement.get("k").strides[0], *memory.placement.get("v").strides[1:])
        scale = amax_scale(memory.read("v", strides))
        for token, slot in enumerate(memory.slots.tolist()):
            memory.write("v_scales", slot, scale[token])

    emission = emulate(kernel, SEED)
    verdict = judge(emission)
    assert (verdict.codes.wrong, verdict.scales.wrong) == (0, 21)
    # The codes are right: a kernel that read the wrong rows would have stored theirs.
    assert diagnose(emission, verdict) == ()


def test_scales_that_tell_equal_rows_apart_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are each other's doubles have the same codes: the wrong scales alone name the fault."""

    def doubles(draw: values._Draw) -> np.typing.NDArray[np.float64]:
        row = values._normal(draw).reshape(8, -1)[:1]
        return (row * np.exp2(np.arange(8))[:, None]).reshape(draw.rows, draw.dim)

    monkeypatch.setitem(values._KINDS, "doubles", doubles)
    emission = emulate(with_k_pitch, Case(k_view="expanded", v_values="doubles"))
    verdict = judge(emission)
    assert (verdict.codes.wrong_any_launch, verdict.scales.wrong) == (0, 21)
    (found,) = diagnose(emission, verdict)
    assert found.says == "V is read with token pitch 0 (K's); declared 384; explains 21 of 21 wrong scales"
    assert (found.explains, found.of, observable(emission, verdict)) == (21, 21, ("sibling-pitch",))


def test_computed_scales_that_are_not_stored_are_predicted_with() -> None:
    """Where the cache has no place for scales, codes alone name the fault."""

    def kernel(memory: Memory, tensor: str = "k") -> None:
        for name in ("k", "v"):
            x = memory.read(name, memory.placement.get(tensor if name == "v" else "k").strides)
            codes = e4m3(x / amax_scale(x)[:, :, None])
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{name}_codes", slot, codes[token])

    form = Form(scales="none")
    right = judge(emulate(lambda memory: kernel(memory, "v"), SEED, form=form))
    assert (right.outcome, right.codes.compared, right.scales.compared) == ("pass", 6144, 0)
    (found,) = diagnosed(emulate(kernel, SEED, form=form))
    assert (found.explains, found.evidence["scales_explained"]) == (found.of, 0)


def test_scales_of_a_power_of_two_are_predicted() -> None:
    """ue8m0 scales, a byte each, are compared with the predicted ones."""

    def kernel(memory: Memory) -> None:
        for name in ("k", "v"):
            x = memory.read(name, memory.placement.get("k").strides)
            exponent = np.ceil(np.log2(amax_scale(x))).astype(np.int32)
            codes = e4m3(x / np.exp2(exponent).astype(np.float32)[:, :, None])
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{name}_codes", slot, codes[token])
                memory.write(f"{name}_scales", slot, (exponent[token] + 127).astype(np.uint8))

    emission = emulate(kernel, SEED, Contract(scale=Computed("token_head", dtype="ue8m0")))
    verdict = judge(emission)
    (found,) = diagnose(emission, verdict)
    assert (found.explains, found.evidence["rows_explained"]) == (verdict.codes.v_wrong, 21)
    assert found.evidence["scales_explained"] == verdict.scales.wrong > 0


def test_approximate_scales_are_followed() -> None:
    """Scales an ulp off, as the contract allows, with codes to match: all wrong codes are explained all the same."""
    rule = Computed("token_head", derive="divide_approx")
    contract = msgspec.structs.replace(COMPUTED, scale=rule, apply="divide_approx")

    def kernel(memory: Memory) -> None:
        for name in ("k", "v"):
            x = memory.read(name, memory.placement.get("k").strides)
            scale = np.nextafter(amax_scale(x), np.float32(np.inf))
            codes = e4m3(x / scale[:, :, None])
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{name}_codes", slot, codes[token])
                memory.write(f"{name}_scales", slot, scale[token])

    emission = emulate(kernel, SEED, contract)
    verdict = judge(emission)
    assert (verdict.codes.k_wrong, verdict.scales.legal, verdict.scales.wrong) == (0, 27, 21)
    (found,) = diagnose(emission, verdict)
    assert (found.explains, found.of, found.evidence["rows_explained"]) == (found.of, verdict.codes.v_wrong, 21)
    exact = emulate(kernel, SEED)
    assert diagnose(exact, judge(exact)) == ()


@pytest.mark.parametrize("exact_scale", [True, False])
def test_codes_at_ties_follow_the_emitted_scale_or_the_declared_error(*, exact_scale: bool) -> None:
    """Every code near a tie moves with an ulp: of the scale, which is stored, or of the division, which is not."""
    rule = Computed("token_head", derive="divide" if exact_scale else "divide_approx")
    contract = Contract(scale=rule, apply="divide_approx" if exact_scale else "divide")

    def kernel(memory: Memory) -> None:
        for name in ("k", "v"):
            x = memory.read(name, memory.placement.get("k").strides)
            right = amax_scale(x)
            used = np.nextafter(right, np.float32(np.inf))
            codes = e4m3(x / used[:, :, None])
            assert name == "k" or (codes != e4m3(x / right[:, :, None])).sum() > 100
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{name}_codes", slot, codes[token])
                memory.write(f"{name}_scales", slot, (right if exact_scale else used)[token])

    emission = emulate(kernel, Case(k_view="expanded", v_values="midpoints"), contract)
    verdict = judge(emission)
    assert verdict.codes.v_wrong > 1000
    (found,) = diagnose(emission, verdict)
    assert (found.explains, found.of) == (verdict.codes.v_wrong, verdict.codes.v_wrong)


def test_codes_that_match_beside_scales_that_do_not_are_no_explanation() -> None:
    """A row is explained with its scale or not at all: these scales are of no row that was read."""

    def kernel(memory: Memory) -> None:
        with_k_pitch(memory)
        for slot in memory.slots.tolist():
            memory.write("v_scales", slot, np.full(3, 0.75, np.float32))

    emission = emulate(kernel, SEED)
    verdict = judge(emission)
    assert verdict.codes.v_wrong > 2600
    assert diagnose(emission, verdict) == ()


def test_a_tokens_scale_is_explained_by_all_its_heads() -> None:
    """With one scale a token, a token whose head 1 has a code of its own keeps its scale unexplained."""

    def kernel(memory: Memory, spoilt: bool) -> None:
        for name in ("k", "v"):
            x = memory.read(name, memory.placement.get("k").strides)
            scale = (np.abs(x).max(axis=(1, 2)) / np.float32(448)).astype(np.float32)
            codes = e4m3(x / scale[:, None, None])
            if spoilt and name == "v":
                codes[5, 1, 7] ^= 1
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{name}_codes", slot, codes[token])
                memory.write(f"{name}_scales", slot, scale[token])

    contract = Contract(scale=Computed("token"))
    (whole,) = diagnosed(emulate(lambda memory: kernel(memory, spoilt=False), SEED, contract))
    (spoilt,) = diagnosed(emulate(lambda memory: kernel(memory, spoilt=True), SEED, contract))
    assert (whole.evidence["scales_explained"], spoilt.evidence["scales_explained"]) == (7, 6)
    assert (whole.evidence["rows_explained"], spoilt.evidence["rows_explained"]) == (21, 20)
