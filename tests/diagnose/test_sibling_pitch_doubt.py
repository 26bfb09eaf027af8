"""`sibling-pitch` is claimed only where it explains the bytes: not from noise, zeros, or what is open."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from judge.emulate import COMPUTED, Memory, amax_scale, e4m3, emulate, given_store, store

from kvcheck.contract import Contract, Given, LoadContract
from kvcheck.diagnose import diagnose, observable, shown
from kvcheck.diagnose.sibling_pitch import SiblingPitch
from kvcheck.draw import values
from kvcheck.judge import judge
from kvcheck.schema import Case, Copy, Received

from .pitch import SEED, diagnosed, with_k_pitch, with_k_strides

#: No other fault is asked.
pytestmark = pytest.mark.usefixtures("sibling_pitch_alone")

V_BY_K, K_BY_V = SiblingPitch.forms


def noisy(memory: Memory) -> None:
    """Store the row of the next token: wrong rows, and none that a pitch explains."""
    store(memory)
    x = np.roll(memory.read("v"), 1, axis=0)
    scale = amax_scale(x)
    codes = e4m3(x / scale[:, :, None])
    for token, slot in enumerate(memory.slots.tolist()):
        memory.write("v_codes", slot, codes[token])
        memory.write("v_scales", slot, scale[token])


def test_another_fault_is_not_called_this_one() -> None:
    """Rows from elsewhere are wrong, and no prediction reproduces them."""
    emission = emulate(noisy, SEED)
    verdict = judge(emission)
    assert verdict.codes.v_wrong > 2600
    assert diagnose(emission, verdict) == ()
    assert observable(emission, verdict) == ("sibling-pitch",)


def test_less_than_half_is_not_claimed() -> None:
    """Three tokens read with the wrong pitch, the others noise: not claimed; five of seven: claimed with its share."""

    def kernel(memory: Memory, tokens: int) -> None:
        noisy(memory)
        x = memory.read("v", (1152, 128, 1))
        scale = amax_scale(x)
        codes = e4m3(x / scale[:, :, None])
        for token in range(tokens):
            memory.write("v_codes", int(memory.slots[token]), codes[token])
            memory.write("v_scales", int(memory.slots[token]), scale[token])

    assert diagnosed(emulate(lambda memory: kernel(memory, 3), SEED)) == ()
    (found,) = diagnosed(emulate(lambda memory: kernel(memory, 6), SEED))
    assert 0.5 < found.explains / found.of < 1
    assert f"explains {found.explains} of {found.of} wrong codes" in found.says
    assert found.evidence["rows_explained"] == 15


def test_rows_of_zeros_prove_nothing() -> None:
    """Zeros beyond V, which many faults would store, are no evidence by themselves."""
    contract = Contract(scale=Given("tensor"))

    def kernel(memory: Memory) -> None:
        given_store(2**-3, 2**-4)(memory)
        for slot in memory.slots.tolist()[3:]:
            memory.write("v_codes", slot, np.zeros(384, np.uint8))

    case = Case(k_view="3000,128,1", layout="pooled")
    emission = emulate(kernel, case, contract)
    verdict = judge(emission)
    assert verdict.codes.v_wrong > 1900
    assert diagnose(emission, verdict) == ()


def test_undefined_codes_are_no_evidence_either_way() -> None:
    """Codes of NaN that the contract leaves open neither hide the fault nor make it observable."""
    contract = msgspec.structs.replace(COMPUTED, nan="undefined")
    case = msgspec.structs.replace(SEED, v_values="nan")

    def kernel(memory: Memory) -> None:
        with_k_pitch(memory)
        for slot in memory.slots.tolist():
            row = memory.row("v_codes", slot)
            row[row == 0x7F] = 0x11
            memory.write("v_codes", slot, row)

    emission = emulate(kernel, case, contract)
    verdict = judge(emission)
    (found,) = diagnose(emission, verdict)
    assert found.of == verdict.codes.v_wrong
    # Those that a NaN of another row's left open are explained with their rows, whose other codes prove them.
    assert found.explains == found.of


def test_a_prediction_that_leaves_all_open_explains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the sibling's pitch leads to a row of NaN, whose codes may be anything, nothing is claimed."""

    def first_nan(draw: values._Draw) -> np.typing.NDArray[np.float64]:
        rows = values._normal(draw).reshape(8, -1)
        rows[0] = np.nan
        return rows.reshape(draw.rows, draw.dim)

    monkeypatch.setitem(values._KINDS, "first_nan", first_nan)
    contract = Contract(scale=Given("tensor"), nan="undefined")

    def kernel(memory: Memory) -> None:
        given_store(2**-3, 2**-4)(memory)
        for slot in memory.slots.tolist():
            memory.write("v_codes", slot, memory.row("v_codes", slot) ^ np.uint8(3))

    emission = emulate(kernel, Case(k_view="expanded", v_values="first_nan"), contract)
    verdict = judge(emission)
    assert verdict.codes.v_wrong == 7 * 384
    assert diagnose(emission, verdict) == ()


def test_what_is_open_in_a_right_kernel_makes_nothing_observable(monkeypatch: pytest.MonkeyPatch) -> None:
    """V is NaN alone, K is one value: no reading of V could be wrong, and K's rows are alike."""

    def all_nan(draw: values._Draw) -> np.typing.NDArray[np.float64]:
        return np.full((draw.rows, draw.dim), np.nan)

    monkeypatch.setitem(values._KINDS, "all_nan", all_nan)
    monkeypatch.setitem(values._KINDS, "ones", lambda draw: np.ones((draw.rows, draw.dim)))
    case = Case(k_values="ones", v_values="all_nan", v_view="expanded")
    scale = Given("tensor")
    loose = emulate(given_store(2**-3, 2**-4), case, Contract(scale=scale, nan="undefined"))
    assert observable(loose, judge(loose)) == ()
    strict = emulate(given_store(2**-3, 2**-4), case, Contract(scale=scale))
    assert shown(strict, judge(strict)) == {"sibling-pitch": {V_BY_K: True, K_BY_V: False}}
    assert observable(strict, judge(strict)) == ()


@pytest.mark.parametrize("case", [Case(k_view="384,256,1", v_view="384,64,1"), Case(v_view="head_padded", tokens=1)])
def test_a_wrong_head_pitch_alone_is_no_shared_pitch(case: Case) -> None:
    """Where the token pitches are equal, or there is one token, K's head pitch may be a dense one: K is not blamed."""
    emission = emulate(with_k_strides, msgspec.structs.replace(case, heads=2, head_dim=64))
    verdict = judge(emission)
    assert verdict.outcome == "mismatch"
    assert diagnose(emission, verdict) == ()
    assert observable(emission, verdict) == ()


def test_a_copied_tensor_has_no_address_faults() -> None:
    """A kernel that was handed a dense copy of V cannot read past V; one that clones and reads V can."""
    emission = emulate(case=SEED)
    verdict = judge(emission)
    copied = msgspec.structs.replace(emission, copies=(Copy("k", "aten::clone", 1), Copy("v", "aten::clone", 1)))
    launched = (Received("store", "", (384, 128, 1)), Received("store", "slots", (1,)))
    assert observable(msgspec.structs.replace(copied, received=launched), verdict) == ()
    assert observable(copied, verdict) == ("sibling-pitch",)
    original = (Received("store", "k", (1152, 128, 1)), Received("store", "v", (384, 128, 1)))
    assert observable(msgspec.structs.replace(copied, received=original), verdict) == ("sibling-pitch",)


def test_a_dense_copy_of_the_sibling_hides_its_pitch() -> None:
    """K's pitch is what reached the kernel: of a dense copy beside a dense V it is V's own."""
    emission = emulate(case=SEED)
    verdict = judge(emission)
    received = (Received("store", "", (384, 128, 1)), Received("store", "v", (384, 128, 1)))
    copied = msgspec.structs.replace(emission, copies=(Copy("k", "aten::clone", 1),), received=received)
    assert observable(copied, verdict) == ()


def test_what_was_not_judged_is_not_diagnosed() -> None:
    """Nothing wrong, nothing compared, or a load target: nothing is said."""
    emission = emulate(with_k_pitch, SEED)
    verdict = judge(emission)
    load = msgspec.structs.replace(emission, contract=LoadContract())
    assert diagnose(load, verdict) == ()
    assert observable(load, verdict) == ()
    malformed = judge(msgspec.structs.replace(emission, launches=emission.launches[:1]))
    assert diagnose(emission, malformed) == ()
    assert observable(emission, malformed) == ()
    passed = emulate(case=SEED)
    assert diagnose(passed, judge(passed)) == ()
