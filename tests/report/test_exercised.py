"""What a matrix did not exercise, from the axes of its cases alone."""

from __future__ import annotations

import msgspec
import pytest

from kvcheck.contract import Contract, Form, Given, LoadContract
from kvcheck.report import sentences
from kvcheck.report.exercised import unexercised
from kvcheck.schema import CaseResult

from .samples import PASS, TARGET, UNSUPPORTED, report


def case(**axes: str | int) -> CaseResult:
    """A compared case with these axes."""
    return msgspec.structs.replace(PASS, axes=axes)


@pytest.mark.parametrize(
    ("phrase", "axes"),
    [
        ("K and V of unlike token pitch", {"k_view": "qkv"}),
        ("heads with gaps between them", {"v_view": "head_padded"}),
        ("heads with gaps between them", {"v_view": "transposed"}),
        ("heads with gaps between them", {"k_view": "3,500,1"}),
        ("an inner stride other than 1", {"k_view": "inner2"}),
        ("a view that begins inside its tensor", {"v_view": "offset17"}),
        ("more rows than slots", {"extra_tokens": 1}),
        ("NaN or infinity", {"v_values": "inf*4"}),
        ("values on and beside rounding ties", {"k_values": "traps"}),
        ("rows of zeros", {"k_values": "all_zero"}),
        ("subnormal codes", {"k_values": "subnormal_codes"}),
        ("base addresses aligned to less than 16 bytes", {"align": 8}),
        ("K or V redrawn alone", {"cross": "k"}),
        ("a head_dim that is no power of two", {"head_dim": 96}),
        ("K and V of unlike head_dim", {"head_dim_v": 64}),
        ("slots out of order", {"slots": "permuted"}),
        ("int32 slots", {"slot_dtype": "int32"}),
        ("a strided slot tensor", {"slot_view": "every_second"}),
        ("a cache with gaps between its rows", {"v_cache": "padded"}),
        ("caches of K and V that lie unlike", {"v_cache": "padded"}),
        ("a cache that is one of several layers", {"layers": 2}),
        ("fp16 sources", {"dtype": "fp16"}),
        ("slots of -1", {"slots": "negative_mixed"}),
        ("tokens that share a slot", {"slots": "duplicates"}),
    ],
)
def test_each_property_is_seen_from_the_axes(phrase: str, axes: dict[str, str | int]) -> None:
    """The defaults lack it, a case with these axes has it; where that case is not compared, that is said."""
    assert phrase in unexercised(report(case())).never
    assert phrase not in unexercised(report(case(), case(**axes))).never
    outside = msgspec.structs.replace(UNSUPPORTED, axes=axes)
    found = unexercised(report(case(), outside))
    assert phrase not in found.never
    assert found.uncompared[phrase] == {"unsupported": 1}


def test_defaults_exercise_tokens_heads_and_poison() -> None:
    """The default case has 8 tokens, 3 heads, bf16 and the arena; one token and head have no pitch."""
    never = unexercised(report(case())).never
    assert not {"more than one token", "more than one head", "bf16 sources", "poison around K and V"} & set(never)
    bare = unexercised(report(case(tokens=1, heads=1, k_view="qkv", v_view="head_padded", layout="pooled"))).never
    assert {"more than one token", "more than one head", "poison around K and V"} <= set(bare)
    assert {"K and V of unlike token pitch", "heads with gaps between them"} <= set(bare)


def test_a_view_of_a_newer_kvcheck_is_not_known_and_claims_nothing() -> None:
    """Strides that cannot be computed exercise nothing, and break nothing."""
    assert "an inner stride other than 1" in unexercised(report(case(k_view="spiral", v_view="spiral"))).never


def test_only_what_the_contract_and_form_leave_open_is_asked() -> None:
    """A load has no K and V; given scales ask for more than one; a shared cache has no strides of its own."""
    load = msgspec.structs.replace(TARGET, kind="load", contract=LoadContract())
    asked = unexercised(report(case(), target=load)).never
    assert "int32 slots" in asked
    assert not {"K and V of unlike token pitch", "NaN or infinity", "fp16 sources", "slots of -1"} & set(asked)
    given = msgspec.structs.replace(TARGET, contract=Contract(scale=Given("tensor"), negative_slots="undefined"))
    asked = unexercised(report(case(), target=given)).never
    assert "more than one given scale" in asked
    assert "slots of -1" not in asked
    packed = msgspec.structs.replace(TARGET, form=Form("packed"))
    assert "a cache with gaps between its rows" not in unexercised(report(case(), target=packed)).never


def test_the_sentences() -> None:
    """One for what no case had, one for what only cases had that were not compared; none where nothing was compared."""
    outside = msgspec.structs.replace(UNSUPPORTED, axes={"k_view": "inner2"})
    never, uncompared = sentences.unexercised(report(case(), outside))
    assert never.startswith("This matrix did not exercise: heads with gaps between them; ")
    assert uncompared == (
        "Only in cases that were not compared: K and V of unlike token pitch (1 unsupported); an inner stride other "
        "than 1 (1 unsupported)."
    )
    assert sentences.unexercised(report(outside)) == []
