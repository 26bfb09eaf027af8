"""`sibling-pitch`: named with the pitch that was used where that explains the bytes, and only there."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judge.emulate import COMPUTED, Memory, amax_scale, e4m3, emulate, given_store, store

from kvcheck.contract import Computed, Contract, Form, Given, LoadContract
from kvcheck.diagnose import diagnose, observable, shown
from kvcheck.diagnose.sibling_pitch import SiblingPitch
from kvcheck.draw import slots, values
from kvcheck.judge import judge
from kvcheck.schema import Case, Copy, Diagnosis, Emission, Received

V_BY_K, K_BY_V = SiblingPitch.forms

#: The case that started it: K is a slice of a qkv tensor, V is dense; K is large and V is small.
SEED = Case(k_view="qkv", v_view="dense", k_values="normal*5", v_values="normal*0.01")


@pytest.fixture(autouse=True)
def _this_fault_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for this fault and no other."""
    # The package's name for the function hides the module's.
    module = importlib.import_module("kvcheck.diagnose.diagnose")
    monkeypatch.setattr(module, "FAULTS", (SiblingPitch(),))
    monkeypatch.setattr(module, "elsewhere", lambda *_: [])


def with_k_pitch(memory: Memory) -> None:
    """Read V with K's token pitch."""
    own = memory.placement.get("v").strides
    store(memory, {"v": (memory.placement.get("k").strides[0], *own[1:])})


def with_k_strides(memory: Memory) -> None:
    """Read V with all of K's strides."""
    store(memory, {"v": memory.placement.get("k").strides})


def diagnosed(emission: Emission) -> tuple[Diagnosis, ...]:
    """Judge, then diagnose."""
    return diagnose(emission, judge(emission))


def test_the_original_case_is_named_in_full() -> None:
    """K is right, V's wrong codes are all explained by K's pitch, and the scales of their rows too."""
    emission = emulate(with_k_pitch, SEED)
    verdict = judge(emission)
    assert (verdict.outcome, verdict.codes.k_wrong) == ("mismatch", 0)
    assert 2600 < verdict.codes.v_wrong < 2689
    (found,) = diagnose(emission, verdict)
    count = verdict.codes.v_wrong
    assert (found.fault, found.tensor, found.explains, found.of) == ("sibling-pitch", "v", count, count)
    assert found.says == (
        f"V is read with token pitch 1152 (K's); declared 384; explains {count} of {count} wrong codes"
    )
    assert found.evidence == {
        "sibling": "k",
        "pitch_used": 1152,
        "pitch_declared": 384,
        "strides_used": [1152, 128, 1],
        "strides_declared": [384, 128, 1],
        "rows_explained": 21,
        "scales_explained": 21,
    }
    assert observable(emission, verdict) == ("sibling-pitch",)


def test_the_mirrored_case_names_k() -> None:
    """K read with V's pitch: the roles are exchanged."""
    case = Case(k_view="dense", v_view="kv")
    emission = emulate(lambda memory: store(memory, {"k": memory.placement.get("v").strides}), case)
    (found,) = diagnosed(emission)
    assert (found.tensor, found.explains) == ("k", found.of)
    assert found.says.startswith("K is read with token pitch 768 (V's); declared 384; explains ")


def test_two_wrong_tensors_are_two_diagnoses_best_first() -> None:
    """K and V each read with the other's pitch."""

    def kernel(memory: Memory) -> None:
        strides = {name: memory.placement.get(name).strides for name in ("k", "v")}
        store(memory, {"k": strides["v"], "v": strides["k"]})

    found = diagnosed(emulate(kernel, Case(k_view="qkv", v_view="every_second")))
    assert {diagnosis.tensor for diagnosis in found} == {"k", "v"}
    assert found[0].explains >= found[1].explains


def test_all_strides_are_told_from_the_token_pitch_alone() -> None:
    """With unlike head pitches both readings are tried, and the one that was used is named."""
    case = Case(k_view="head_padded", v_view="dense")
    (pitch,) = diagnosed(emulate(with_k_pitch, case))
    assert pitch.says.startswith("V is read with token pitch 432 (K's); declared 384; explains ")
    (strides,) = diagnosed(emulate(with_k_strides, case))
    assert strides.says.startswith("V is read with strides (432, 144, 1) (K's); declared (384, 128, 1); explains ")
    assert pitch.evidence["strides_used"] == [432, 128, 1]
    assert strides.evidence["strides_used"] == [432, 144, 1]
    assert (pitch.explains, strides.explains) == (pitch.of, strides.of)


def test_strides_that_differ_in_the_head_alone_are_seen() -> None:
    """A transposed K has another head pitch: only the reading with all strides reproduces the bytes."""
    case = Case(k_view="384,256,1", v_view="dense", heads=3, head_dim=64)
    (found,) = diagnosed(emulate(with_k_strides, case))
    assert found.evidence["strides_used"] == [384, 256, 1]


@pytest.mark.parametrize(
    "case",
    [Case(), Case(k_view="qkv", v_view="qkv"), msgspec.structs.replace(SEED, tokens=1), Case(k_view="offset17")],
)
def test_equal_pitches_and_single_tokens_show_nothing(case: Case) -> None:
    """Where K and V lie alike, or there is one token, the faulty kernel is right and the fault unobservable."""
    emission = emulate(with_k_pitch, case)
    verdict = judge(emission)
    assert verdict.outcome == "pass"
    assert diagnose(emission, verdict) == ()
    assert observable(emission, verdict) == ()


VIEWS = st.sampled_from(["dense", "qkv", "head_padded", "inner2", "transposed", "every_second", "expanded"])


@settings(max_examples=40, deadline=None)
@given(
    k_view=VIEWS,
    v_view=VIEWS,
    v_values=st.sampled_from(["normal", "constant", "all_zero"]),
    tokens=st.integers(0, 4),
    seed=st.integers(0, 3),
)
def test_observable_means_that_a_faulty_kernel_fails(
    k_view: str, v_view: str, v_values: str, tokens: int, seed: int
) -> None:
    """Each form is shown exactly where a kernel that borrows that token pitch leaves a wrong byte, in any launch."""
    case = Case(k_view, v_view, v_values=v_values, tokens=tokens, heads=2, head_dim=16, seed=seed)

    def borrows(tensor: str, sibling: str) -> Callable[[Memory], None]:
        def kernel(memory: Memory) -> None:
            own, theirs = memory.placement.get(tensor).strides, memory.placement.get(sibling).strides
            store(memory, {tensor: (theirs[0], *own[1:])})

        return kernel

    kernels = {V_BY_K: borrows("v", "k"), K_BY_V: borrows("k", "v")}
    fails = {form: judge(emulate(kernel, case)).outcome != "pass" for form, kernel in kernels.items()}
    right = emulate(case=case)
    assert shown(right, judge(right)) == {"sibling-pitch": fails}
    assert observable(right, judge(right)) == (("sibling-pitch",) if all(fails.values()) else ())


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


@pytest.mark.parametrize("case", [Case(k_view="384,256,1", v_view="384,64,1"), Case(v_view="head_padded", tokens=1)])
def test_a_wrong_head_pitch_alone_is_no_shared_pitch(case: Case) -> None:
    """Where the token pitches are equal, or there is one token, K's head pitch may be a dense one: K is not blamed."""
    emission = emulate(with_k_strides, msgspec.structs.replace(case, heads=2, head_dim=64))
    verdict = judge(emission)
    assert verdict.outcome == "mismatch"
    assert diagnose(emission, verdict) == ()
    assert observable(emission, verdict) == ()


@pytest.mark.parametrize("v_view", ["dense", "qkv"])
def test_tokens_that_share_slots_show_it_too(v_view: str) -> None:
    """With duplicate slots the fault is observable exactly where the kernel fails: where the pitches differ."""
    emission = emulate(with_k_pitch, msgspec.structs.replace(SEED, slots="duplicates", v_view=v_view))
    verdict = judge(emission)
    assert (verdict.outcome == "mismatch") == (v_view == "dense")
    assert observable(emission, verdict) == (("sibling-pitch",) if v_view == "dense" else ())


def test_a_slot_that_tokens_share_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens 5, 6 and 7 share a slot: it is explained with the four other wrong tokens' rows, and all codes count."""

    def kind(tokens: int, count: int, page: int, seed: int) -> np.typing.NDArray[np.int64]:
        del count, page, seed
        return np.minimum(np.arange(tokens, dtype=np.int64), 5)

    monkeypatch.setitem(slots._KINDS, "shared", kind)
    emission = emulate(with_k_pitch, msgspec.structs.replace(SEED, slots="shared"))
    verdict = judge(emission)
    (found,) = diagnose(emission, verdict)
    assert found.evidence["rows_explained"] == 15
    assert found.explains == found.of == verdict.codes.v_wrong


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


def test_negative_slots_and_other_forms_are_followed() -> None:
    """Rows are those of the tokens that are stored; inline scales are read where they lie."""
    case = msgspec.structs.replace(SEED, slots="negative_mixed")
    (found,) = diagnosed(emulate(with_k_pitch, case, form=Form("pages", page=4, scales="inline")))
    assert found.explains == found.of


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
