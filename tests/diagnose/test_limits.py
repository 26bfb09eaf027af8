"""Limits before a scale is applied, and integers without one: named with the limit, by the bytes that they leave."""

from __future__ import annotations

import numpy as np
import pytest
from judge.emulate import Floats, Kernel, Memory, amax_scale, e4m3, emulate

from kvcheck.contract import Computed, Contract, Form, Given
from kvcheck.diagnose import diagnose
from kvcheck.draw import scales
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis

STATIC = Contract(Given("tensor"), format="int8", minimum=-128.0, nan="undefined")
COMPUTED = Contract(Computed(maximum=127.0), format="int8", nan="undefined")
LARGE = Case(tokens=4, k_values="normal*1e4", v_values="normal*0.01")


def clamped(limit: float) -> Kernel:
    """A store whose values are clamped once their amax is taken."""

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = amax_scale(x)
            codes = e4m3(np.asarray(np.clip(x, -limit, limit) / scale[:, :, None], np.float32))
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])
                memory.write(f"{tensor}_scales", slot, scale[token])

    return run


def whole(way: str) -> Kernel:
    """A store of int8 by given scales, 2^-3 and 2^-4, that rounds or cuts off and has a limit or none."""

    def run(memory: Memory) -> None:
        for tensor, base in (("k", "2^-3"), ("v", "2^-4")):
            scaled = memory.read(tensor) / scales.given(base, "tensor", 1)
            number = np.trunc(scaled) if "cut" in way else np.rint(scaled)
            number = np.clip(number, -128, 127) if "limited" in way else number
            codes = (number.astype(np.int64) & 0xFF).astype(np.uint8)
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])

    return run


def named(run: Kernel, case: Case, contract: Contract | None = None) -> tuple[Diagnosis, ...]:
    """What is named of a store."""
    if contract is None:
        emission = emulate(run, case)
    else:
        given = isinstance(contract.scale, Given)
        form = Form("slots", codes="int8", scales="none" if given else "sidecar")
        emission = emulate(run, case, contract, form)
    return diagnose(emission, judge(emission))


@pytest.mark.parametrize("limit", [448.0, 240.0, 3000.0])
def test_a_limit_on_values_is_recovered(limit: float) -> None:
    """Scales are right: what is beyond the limit has the code of the limit by its row's own scale."""
    (first,) = named(clamped(limit), LARGE)
    assert (first.fault, first.tensor, first.explains) == ("early-saturation", "k", first.of)
    found = first.evidence["limit"]
    assert isinstance(found, float)
    # A few codes tell the limit within their own width: it is the roundest number there.
    assert abs(found / limit - 1) < 0.05
    assert f"values clamped at {found:g} before their scale is applied" in first.says


@pytest.mark.parametrize("seed", [2, 4, 17])
def test_a_limit_between_two_codes_is_still_the_limit(seed: int) -> None:
    """It lies at an end of what its codes admit, which are known within a rounding: 240, and not 239 or 238."""
    case = Case(heads=1, head_dim=46, k_values="normal*1e4", v_values="normal*1e4", seed=seed)
    assert {each.evidence["limit"] for each in named(clamped(240.0), case)} == {240.0}


def test_codes_of_no_limit_are_no_limit() -> None:
    """Values that are halved where they are large have no one limit."""

    def run(memory: Memory) -> None:
        clamped(np.inf)(memory)
        x = memory.read("k")
        scale = amax_scale(x)
        codes = e4m3(np.asarray(np.where(np.abs(x) > 5e3, x / 2, x) / scale[:, :, None], np.float32))
        for token, slot in enumerate(memory.slots.tolist()):
            memory.write("k_codes", slot, codes[token])

    assert all(each.fault != "early-saturation" for each in named(run, LARGE))


@pytest.mark.parametrize(
    ("way", "fault", "words"),
    [
        ("rounded", "overflow-to-nan", "not limited: what is too large runs over into the sign"),
        ("cut", "overflow-to-nan", "not limited, and cut off: what is too large runs over into the sign"),
        ("cut, limited", "rounding-mode", "rounded toward zero"),
    ],
)
def test_whole_numbers_are_the_codes_of_integers(way: str, fault: str, words: str) -> None:
    """What is wrong of them is their limit or their rounding, not that they are whole."""
    case = Case(dtype="fp32", k_values="normal*1e4", v_values="normal*5", k_scale="2^-3", v_scale="2^-4")
    case = case if "limited" not in way else Case(dtype="fp32", k_scale="2^-3", v_scale="2^-4")
    found = named(whole(way), case, STATIC)
    assert {each.fault for each in found} == {fault}
    assert all(words in each.says and each.explains == each.of for each in found)


def test_a_lower_least_is_no_overflow() -> None:
    """-128 where -127 is the least: nothing runs over, and a contract that admits it has nothing to name."""
    contract = Contract(Given("tensor"), format="int8", nan="undefined")
    case = Case(dtype="fp32", k_values="normal*5", v_values="normal*1e4", k_scale="2^-3", v_scale="2^-4")
    found = named(whole("limited"), case, contract)
    assert {each.fault for each in found} == {"format-confusion"}
    assert found[0].says.startswith("V's codes are -128 where -127 is the least")
    assert all("alike" not in each.evidence for each in found)
    assert not named(whole("limited"), case, STATIC)


def test_what_reaches_the_least_of_eight_bits_alone_does_not_run_over() -> None:
    """By scales of 128 for the largest value the least code is -128, where the amax of a row is negative."""
    kept: list[Floats] = []

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x: Floats = memory.read(tensor)
            scale = np.asarray(np.abs(x).max(axis=2) / np.float32(128), np.float32)
            codes = np.clip(np.rint(x / scale[:, :, None]), -128, 127).astype(np.int8).view(np.uint8)
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])
                memory.write(f"{tensor}_scales", slot, scale[token])
        kept.append(x)

    case = Case(dtype="fp32", tokens=1, heads=1, head_dim=64, seed=3)
    found = named(run, case, COMPUTED)
    assert kept[1].max() < -kept[1].min()
    found = tuple(each for each in found if each.tensor == "v")
    assert [each.fault for each in found] == ["wrong-max", "format-confusion"]
    assert all("alike" not in each.evidence for each in found)


@pytest.mark.parametrize("least", [-127, -128])
def test_codes_that_follow_a_wrong_scale_are_its_own(least: int) -> None:
    """int8 by the positive elements' amax: the scale comes first, whatever the few codes at the limit are.

    No scaled value is stored as it is, and nothing runs over.
    """

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x: Floats = memory.read(tensor)
            scale = np.asarray(x.max(axis=2) / np.float32(127), np.float32)
            codes = np.clip(np.rint(x / scale[:, :, None]), least, 127).astype(np.int8).view(np.uint8)
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])
                memory.write(f"{tensor}_scales", slot, scale[token])

    found = named(run, Case(dtype="fp32"), COMPUTED)
    assert {each.fault for each in found[:2]} == {"amax-population"}
    assert {each.fault for each in found[2:]} == ({"format-confusion"} if least == -128 else set())
    assert all(each.explains > 0.9 * each.of for each in found[:2])
    assert "unexplained" not in found[-1].evidence


@pytest.mark.parametrize(
    ("least", "largest", "words"),
    [
        (-64, 63, "clamped at -64 and 63"),
        (-63, 63, "clamped at 63"),
        (-128, 99, "clamped at 99 for positive values"),
        (-50, 127, "clamped at -50 for negative values"),
    ],
)
def test_limits_of_integers_are_of_each_sign(least: int, largest: int, words: str) -> None:
    """Recovered from the codes of each; a sign that is right beyond the other's limit has none of its own."""

    def run(memory: Memory) -> None:
        for tensor, base in (("k", "2^-3"), ("v", "2^-4")):
            number = np.clip(np.rint(memory.read(tensor) / scales.given(base, "tensor", 1)), least, largest)
            codes = (number.astype(np.int64) & 0xFF).astype(np.uint8)
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])

    # A code of -128 is the contract's least one.
    first, *_ = named(run, Case(tokens=8, k_values="normal*5", v_values="normal*5"), STATIC)
    assert (first.fault, first.explains) == ("early-saturation", first.of)
    assert words in first.says


def test_two_codes_for_what_is_too_large_are_no_limit() -> None:
    """A limit is one."""

    def run(memory: Memory) -> None:
        for tensor, base in (("k", "2^-3"), ("v", "2^-4")):
            number = np.rint(memory.read(tensor) / scales.given(base, "tensor", 1))
            number = np.clip(number, -128, np.where(np.arange(number.shape[2]) % 2, 60, 70))
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, (number[token].astype(np.int64) & 0xFF).astype(np.uint8))

    made = named(run, Case(tokens=8, k_values="normal*5", v_values="normal*5"), STATIC)
    assert "early-saturation" not in {each.fault for each in made}
