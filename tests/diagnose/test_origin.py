"""Rows read from where no named fault reads: recovered by their signs, named by the map, whatever made their codes."""

from __future__ import annotations

import numpy as np
import pytest
from judge.emulate import Bytes, Floats, emulate

from diagnose.elsewhere import Offsets, reads
from kvcheck.diagnose import diagnose
from kvcheck.formats import bits
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis

PERMUTED = np.array([3, 0, 1, 2, 7, 5, 6, 4])

#: A kernel, a case, the fault and the sentence of V.
TABLE: dict[str, tuple[Offsets, Case, str, str]] = {
    "eight too many": (
        lambda _, p, t, h, d: t * (p.strides[0] + 8) + h * p.strides[1] + d * p.strides[2],
        Case(k_view="qkv"),
        "foreign-read",
        "with token pitch 392; declared 384",
    ),
    "pitch in bytes": (
        lambda _, p, t, h, d: t * 2 * p.strides[0] + h * p.strides[1] + d * p.strides[2],
        Case(v_view="qkv", k_view="qkv"),
        "foreign-read",
        "with token pitch 2304; declared 1152",
    ),
    "head pitch and offset": (
        lambda _, p, t, h, d: t * p.strides[0] + h * (p.strides[1] + 4) + d * p.strides[2] + 3,
        Case(v_view="kv"),
        "foreign-read",
        "with head pitch 132; declared 128, from 3 elements behind its first one",
    ),
    "K's head pitch": (
        lambda pl, p, t, h, d: t * p.strides[0] + h * pl.get("k").strides[1] + d * p.strides[2],
        Case(k_view="head_padded", v_view="qkv"),
        "sibling-pitch",
        "with head pitch 144; declared 128 (the head pitch is K's)",
    ),
    "interleaved": (
        lambda _, p, t, h, d: t * p.strides[0] + h + d * p.dims[1],
        Case(heads=5),
        "foreign-read",
        "with head pitch 1, inner stride 5; declared 128, 1",
    ),
    "odd heads": (
        lambda _, p, t, h, d: t * p.strides[0] + (2 * h + 1) % p.dims[1] * p.strides[1] + d * p.strides[2],
        Case(heads=5),
        "head-mapping",
        "with heads [1, 3, 0, 2, 4] for heads 0 to 4",
    ),
    "tokens permuted": (
        lambda _, p, t, h, d: PERMUTED[t] * p.strides[0] + h * p.strides[1] + d * p.strides[2],
        Case(),
        "foreign-read",
        "with tokens [3, 0, 1, 2, 7, 5, 6, 4] for tokens 0 to 7",
    ),
    "rows permuted": (
        lambda _, p, t, h, d: (t * 3 + h) % 24 // 3 * p.strides[0] + (t * 7 + h) % 3 * p.strides[1] + d * p.strides[2],
        Case(),
        "foreign-read",
        "with its rows for one another: token 1, head 0 is token 1, head 1",
    ),
}


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_an_unknown_map_is_named_with_its_figures(name: str, dtype: str) -> None:
    """All wrong codes are explained by the one map."""
    kernel, case, fault, how = TABLE[name]
    case = Case(**{field: getattr(case, field) for field in case.__struct_fields__} | {"dtype": dtype})
    found = _diagnosed(kernel, case)
    assert [(each.fault, each.tensor, each.explains) for each in found] == [(fault, "v", found[0].of)]
    assert found[0].says.startswith(f"V is read {how}; explains ")


def _diagnosed(kernel: Offsets, case: Case) -> tuple[Diagnosis, ...]:
    emission = emulate(reads(kernel, ("v",)), case)
    return diagnose(emission, judge(emission))


def _toward_zero(scaled: Floats) -> Bytes:
    return bits.encode(scaled, rounding="rtz")


@pytest.mark.parametrize("name", ["eight too many", "pitch in bytes", "head pitch and offset", "odd heads"])
def test_a_map_and_a_rounding_are_both_named(name: str) -> None:
    """The rows come from elsewhere and their codes are truncated: V's address first, its rounding beside it."""
    kernel, case, fault, how = TABLE[name]
    emission = emulate(reads(kernel, ("v",), _toward_zero), case)
    found = [each for each in diagnose(emission, judge(emission)) if each.tensor == "v"]
    assert [each.fault for each in found[:2]] == [fault, "rounding-mode"]
    assert found[0].says.startswith(f"V is read {how}; explains {found[0].of} of {found[0].of} wrong codes")


def test_short_and_sign_poor_rows_are_left_open() -> None:
    """Positive values have no signs to go by, and rows below 32 elements too few: nothing is claimed."""
    kernel = TABLE["eight too many"][0]
    for case in (Case(v_values="offset"), Case(head_dim=16)):
        assert "foreign-read" not in {each.fault for each in _diagnosed(kernel, case) if "pitch" in each.says}
