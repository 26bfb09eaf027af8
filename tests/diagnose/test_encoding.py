"""Faults of the encoder: a rounding that is not the contract's is named by the codes it leaves, and only then."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from judge.emulate import COMPUTED, Kernel, Memory, amax_scale, emulate, store

from kvcheck.contract import Contract, Form, Given
from kvcheck.diagnose import diagnose, observable
from kvcheck.formats import bits
from kvcheck.formats.spec import Rounding
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis, Emission

ROUNDINGS = ("double-rounding-fp16", "double-rounding-bf16", "rounding-mode")


def rounding(rule: Rounding, tensors: str = "kv") -> Kernel:
    """A store that encodes K, V or both by another rounding, and all else right."""

    def kernel(memory: Memory) -> None:
        store(memory)
        for tensor in tensors:
            x = memory.read("k" if tensor == "k" else "v")
            with np.errstate(invalid="ignore", divide="ignore"):
                codes = bits.encode(x / amax_scale(x)[:, :, None], rounding=rule)
            for token, slot in enumerate(memory.slots):
                memory.write(f"{tensor}_codes", int(slot), codes[token])

    return kernel


def diagnosed(emission: Emission) -> tuple[Diagnosis, ...]:
    """Judge, then diagnose."""
    return diagnose(emission, judge(emission))


@pytest.mark.parametrize(
    ("rule", "fault", "words"),
    [
        ("via_fp16_rtz", "double-rounding-fp16", "rounded twice, first toward zero to fp16"),
        ("via_fp16_rne", "double-rounding-fp16", "rounded twice, first to nearest in fp16"),
        ("via_bf16", "double-rounding-bf16", "rounded twice, first to nearest in bf16"),
        ("rtz", "rounding-mode", "rounded toward zero"),
    ],
)
def test_every_rounding_is_named_by_its_codes(rule: Rounding, fault: str, words: str) -> None:
    """The rounding that gives all codes of both tensors is first, with the number of wrong codes that it explains."""
    emission = emulate(rounding(rule), Case(dtype="fp32", head_dim=512))
    verdict = judge(emission)
    found = diagnose(emission, verdict)
    assert {each.fault for each in found} == {fault}
    wrong = {"k": verdict.codes.k_wrong, "v": verdict.codes.v_wrong}
    for each in found:
        name = each.tensor.upper()
        assert each.explains == each.of == wrong[each.tensor]
        assert each.says == f"{name}'s codes are {words}; explains {each.of} of {each.of} wrong codes"
        assert each.evidence["rounding"] == rule
    assert sum(each.of for each in found) == verdict.codes.wrong > 0


def test_ties_away_from_zero_need_ties() -> None:
    """On values at midpoints a tie that goes away from zero shows; on values without ties no rounding mode could."""
    emission = emulate(rounding("half_away"), Case(k_values="midpoints", v_values="midpoints"))
    assert [each.fault for each in diagnosed(emission)] == ["rounding-mode", "rounding-mode"]
    assert "ties away from zero" in diagnosed(emission)[0].says


@pytest.mark.parametrize("tensor", ["k", "v"])
def test_the_tensor_that_is_right_is_left_out(tensor: str) -> None:
    """A double rounding of one tensor is a diagnosis of that tensor alone."""
    emission = emulate(rounding("via_fp16_rtz", tensor), Case(dtype="fp32", head_dim=512))
    assert [each.tensor for each in diagnosed(emission)] == [tensor]


def test_a_kernel_that_is_right_is_diagnosed_with_nothing() -> None:
    """No rounding explains codes that are all right."""
    assert diagnosed(emulate(store, Case(dtype="fp32"))) == ()


def test_one_code_that_does_not_fit_is_enough() -> None:
    """A rule that loses one emitted code is not believed, however many it reproduces."""

    def kernel(memory: Memory) -> None:
        rounding("via_fp16_rtz")(memory)
        for tensor in ("k", "v"):
            row = memory.read("k" if tensor == "k" else "v")[0]
            codes = bits.encode(row / amax_scale(row[None])[0][:, None], rounding="via_fp16_rtz")
            codes[0, 0] ^= 0x80
            memory.write(f"{tensor}_codes", int(memory.slots[0]), codes)

    emission = emulate(kernel, Case(dtype="fp32", head_dim=512))
    assert judge(emission).outcome == "mismatch"
    assert diagnosed(emission) == ()


@pytest.mark.parametrize("fault", ROUNDINGS)
def test_exact_codes_make_no_rounding_observable(fault: str) -> None:
    """Where every scaled value is a code, all roundings agree, and a pass says nothing of them."""
    case = Case(k_values="grid", v_values="grid", tokens=2)
    emission = emulate(store, case)
    assert fault not in observable(emission, judge(emission))


@pytest.mark.parametrize("rule", ["via_fp16_rtz", "via_bf16", "rtz", "half_away"])
@pytest.mark.parametrize("values", ["normal", "grid", "midpoints", "traps", "all_zero"])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_observable_exactly_where_a_faulty_kernel_fails(rule: Rounding, values: str, dtype: str) -> None:
    """The fault of a rounding is observable if all of its roundings fail: where one passes, a pass shows nothing."""
    faults = {"via_fp16_rtz": 0, "via_bf16": 1, "rtz": 2, "half_away": 2}
    rules: dict[str, tuple[Rounding, ...]] = {
        "double-rounding-fp16": ("via_fp16_rtz", "via_fp16_rne"),
        "double-rounding-bf16": ("via_bf16",),
        "rounding-mode": ("half_away", "rtz"),
    }
    fault = ROUNDINGS[faults[rule]]
    case = msgspec.convert({"k_values": values, "v_values": values, "dtype": dtype, "tokens": 2, "head_dim": 64}, Case)
    fails = [judge(emulate(rounding(each), case)).outcome == "mismatch" for each in rules[fault]]
    right = emulate(store, case)
    assert (fault in observable(right, judge(right))) == all(fails)


def test_under_a_declared_error_neighbours_are_no_contradiction() -> None:
    """A contract of approximate division still shows truncation: all wrong codes are what truncation gives."""
    contract = msgspec.structs.replace(COMPUTED, apply="divide_approx")
    emission = emulate(rounding("rtz"), Case(dtype="fp32"), contract)
    assert {each.fault for each in diagnosed(emission)} == {"rounding-mode"}


def test_given_scales_are_followed() -> None:
    """With a given scale the codes follow from the values and that scale."""

    def kernel(memory: Memory) -> None:
        for tensor, scale in (("k", 0.125), ("v", 0.0625)):
            codes = bits.encode(memory.read("k" if tensor == "k" else "v") / np.float32(scale), rounding="rtz")
            for token, slot in enumerate(memory.slots):
                memory.write(f"{tensor}_codes", int(slot), codes[token])

    emission = emulate(kernel, Case(), Contract(scale=Given("tensor")), Form(scales="none"))
    assert {(each.fault, each.tensor) for each in diagnosed(emission)} == {
        ("rounding-mode", "k"),
        ("rounding-mode", "v"),
    }


def test_a_format_without_the_rounding_is_left_alone() -> None:
    """Where the contract's own rounding is toward zero, rounding to nearest is the fault."""
    contract = msgspec.structs.replace(COMPUTED, rounding="rtz")
    emission = emulate(rounding("rne"), Case(dtype="fp32"), contract)
    assert {each.says.partition(";")[0] for each in diagnosed(emission)} == {
        "K's codes are rounded to nearest, ties to even",
        "V's codes are rounded to nearest, ties to even",
    }
