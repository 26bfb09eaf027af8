"""`sibling-pitch`: named with the pitch that was used, whichever tensor it is in, and where a case can show it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judge.emulate import Memory, emulate, store

from kvcheck.contract import Form
from kvcheck.diagnose import diagnose, observable, shown
from kvcheck.diagnose.sibling_pitch import SiblingPitch
from kvcheck.draw import slots
from kvcheck.judge import judge
from kvcheck.schema import Case

from .pitch import SEED, diagnosed, with_k_pitch, with_k_strides

#: No other fault is asked.
pytestmark = pytest.mark.usefixtures("sibling_pitch_alone")

V_BY_K, K_BY_V = SiblingPitch.forms

VIEWS = st.sampled_from(["dense", "qkv", "head_padded", "inner2", "transposed", "every_second", "expanded"])


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


def test_negative_slots_and_other_forms_are_followed() -> None:
    """Rows are those of the tokens that are stored; inline scales are read where they lie."""
    case = msgspec.structs.replace(SEED, slots="negative_mixed")
    (found,) = diagnosed(emulate(with_k_pitch, case, form=Form("pages", page=4, scales="inline")))
    assert found.explains == found.of
