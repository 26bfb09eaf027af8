"""Rows that are read from elsewhere are named with the figures that the kernel used, and nothing else is."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from judge.emulate import emulate, store

from diagnose.elsewhere import NOTHING, Offsets, reads
from kvcheck.diagnose import diagnose, observable
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis, Emission

DENSE_HEADS: Offsets = lambda _, p, t, h, d: t * p.strides[0] + h * p.dims[2] + d * p.strides[2]  # noqa: E731
DENSE_ROWS: Offsets = lambda _, p, t, h, d: t * p.dims[1] * p.dims[2] + h * p.strides[1] + d * p.strides[2]  # noqa: E731
UNIT_INNER: Offsets = lambda _, p, t, h, d: t * p.strides[0] + h * p.strides[1] + d  # noqa: E731
STORAGE: Offsets = lambda _, p, t, h, d: (  # noqa: E731
    t * p.strides[0] + h * p.strides[1] + d * p.strides[2] - p.offset // (4 if p.dtype == "fp32" else 2)
)
ROTATED: Offsets = lambda _, p, t, h, d: (  # noqa: E731
    t * p.strides[0] + (h + 1) % p.dims[1] * p.strides[1] + d * p.strides[2]
)
GROUPED: Offsets = lambda _, p, t, h, d: t * p.strides[0] + h // 2 * p.strides[1] + d * p.strides[2]  # noqa: E731
WRAPPED: Offsets = lambda _, p, t, h, d: (  # noqa: E731
    (t * p.strides[0] + (1 << 15)) % (1 << 16) - (1 << 15) + h * p.strides[1] + d * p.strides[2]
)
VECTORS: Offsets = lambda _, p, t, h, d: (t * p.strides[0] + h * p.strides[1]) // 8 * 8 + d * p.strides[2]  # noqa: E731
TAIL: Offsets = lambda _, p, t, h, d: np.where(  # noqa: E731
    d < 64, t * p.strides[0] + h * p.strides[1] + d * p.strides[2], NOTHING
)
LATE: Offsets = lambda _, p, t, h, d: (t + 1) * p.strides[0] + h * p.strides[1] + d * p.strides[2]  # noqa: E731

HEADS_FIRST: Offsets = lambda _, p, t, h, d: t * p.dims[2] + h * p.dims[0] * p.dims[2] + d  # noqa: E731

#: A kernel, a case that shows it, the fault, and the sentence of V.
TABLE: dict[str, tuple[Offsets, Case, str, str]] = {
    "dense-heads": (
        DENSE_HEADS,
        Case(v_view="head_padded"),
        "dense-heads",
        "with head pitch 128 (dense); declared 144",
    ),
    "dense-rows": (
        DENSE_ROWS,
        Case(k_view="kv", v_view="qkv"),
        "dense-heads",
        "with token pitch 384 (dense: heads x head_dim); declared 1152",
    ),
    "inner": (UNIT_INNER, Case(v_view="inner2"), "inner-stride-ignored", "with inner stride 1; declared 2"),
    "storage": (
        STORAGE,
        Case(v_view="offset8", layout="exact"),
        "offset-ignored",
        "from the beginning of its parent, 8 elements before its first one",
    ),
    "rotated": (ROTATED, Case(), "head-mapping", "with heads [1, 2, 0] for heads 0 to 2"),
    "grouped": (GROUPED, Case(heads=4), "head-mapping", "with heads [0, 0, 1, 1] for heads 0 to 3"),
    "wrapped": (
        WRAPPED,
        Case(heads=8, head_dim=576, v_view="qkv"),
        "index-wrap",
        "with the row's offset wrapped in signed 16 bits",
    ),
    "vectors": (
        VECTORS,
        Case(head_dim=46),
        "misaligned",
        "in vectors of 16 bytes, each row's offset rounded down to one",
    ),
    "tail": (TAIL, Case(head_dim=92), "tail-mask", "up to element 64 of 92, zero beyond"),
    # Few values are not the largest there: no search finds where such rows came from.
    "heads-first": (
        HEADS_FIRST,
        Case(tokens=3, k_values="overflow*2^-3", v_values="overflow*2^-4"),
        "foreign-read",
        "as in [heads, tokens, head_dim], with token pitch 128 and head pitch 384; declared 384 and 128",
    ),
    "late": (LATE, Case(), "foreign-read", "one token late: token t from row t + 1"),
}


def diagnosed(emission: Emission) -> tuple[Diagnosis, ...]:
    """Judge, then diagnose."""
    return diagnose(emission, judge(emission))


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_a_wrong_reading_of_v_is_named_with_its_figures(name: str, dtype: str) -> None:
    """All wrong codes are explained, in V alone, by the form that was used."""
    kernel, case, fault, how = TABLE[name]
    emission = emulate(reads(kernel, ("v",)), msgspec.convert({**msgspec.to_builtins(case), "dtype": dtype}, Case))
    found = diagnosed(emission)
    if name == "vectors" and dtype == "fp32":
        how = how.replace("16", "32")
    assert [(each.fault, each.tensor, each.explains) for each in found] == [(fault, "v", found[0].of)]
    assert found[0].says.startswith(f"V is read {how}; explains ")


def test_a_dense_head_pitch_that_is_the_siblings_is_said_to_be() -> None:
    """K's heads are dense where V's are not: what was taken for V's pitch is both."""
    emission = emulate(reads(DENSE_HEADS, ("v",)), Case(v_view="head_padded"))
    (made,) = diagnosed(emission)
    assert made.says.endswith("; this case cannot tell it from sibling-pitch")
    (other,) = diagnosed(emulate(reads(DENSE_HEADS, ("v",)), Case(k_view="head_padded", v_view="head_padded")))
    assert "cannot tell" not in other.says


@pytest.mark.parametrize("name", TABLE)
def test_both_tensors_at_once_are_two_diagnoses(name: str) -> None:
    """K and V read alike wrong."""
    kernel, case, fault, _ = TABLE[name]
    emission = emulate(reads(kernel), msgspec.structs.replace(case, k_view=case.v_view))
    assert {(each.fault, each.tensor) for each in diagnosed(emission)} == {(fault, "k"), (fault, "v")}


@pytest.mark.parametrize("name", sorted(set(TABLE) - {"dense-rows", "wrapped", "late", "heads-first"}))
def test_what_shows_the_fault_is_observable_and_what_hides_it_is_not(name: str) -> None:
    """By the case of a right kernel."""
    _, case, fault, _ = TABLE[name]
    emission = emulate(store, case)
    assert fault in observable(emission, judge(emission))
    plain = emulate(store, Case(heads=1, layout="exact"))
    assert fault not in observable(plain, judge(plain))


@pytest.mark.parametrize("case", [Case(), Case(k_view="inner2", v_view="head_padded"), Case(head_dim=46, heads=5)])
def test_a_right_store_has_no_diagnosis(case: Case) -> None:
    """Nothing is condemned, so that nothing is explained."""
    assert diagnosed(emulate(store, case)) == ()
