"""What a target declares to take, held against cases: none outside is run, none inside is left out."""

from __future__ import annotations

import pytest

from kvcheck.contract import Accepts, Computed, Contract, Form, LoadContract
from kvcheck.memory.place import place
from kvcheck.schema import Case
from kvcheck.targets.limits import outside_limits

CONTRACT = Contract(scale=Computed("token_head"))


def _reason(case: Case, accepts: Accepts = Accepts(), contract: Contract = CONTRACT, form: Form = Form()) -> str | None:  # noqa: B008 - frozen
    return outside_limits(case, contract, accepts, form, place(case, contract, form, accepts, cuda=False))


@pytest.mark.parametrize(
    ("case", "accepts", "reason"),
    [
        (Case(dtype="fp16"), Accepts(dtypes=("bf16", "fp32")), "takes dtype bf16, fp32; the case has fp16"),
        (Case(head_dim=96), Accepts(head_dims=(64, 128)), "takes head_dim 64, 128; the case has 96"),
        (Case(head_dim_v=64), Accepts(head_dims=(128,)), "takes head_dim_v 128; the case has 64"),
        (Case(heads=2), Accepts(head_counts=(8,)), "takes heads 8; the case has 2"),
        (Case(tokens=5), Accepts(tokens=(1,)), "takes tokens 1; the case has 5"),
        (Case(slot_dtype="int32"), Accepts(slot_dtypes=("int64",)), "takes slot_dtype int64; the case has int32"),
        (Case(k_view="inner2"), Accepts(inner=1), "takes inner stride 1; the case has 2 in K"),
        (Case(v_view="inner2"), Accepts(inner=1), "takes inner stride 1; the case has 2 in V"),
        (
            Case(v_view="head_padded", head_dim=16),
            Accepts(head_pitch="dense"),
            "takes heads without gaps; V has head pitch",
        ),
        (Case(k_view="qkv"), Accepts(same_pitch=True), "takes K and V of equal strides; the case has (1152, 128, 1)"),
        (
            Case(tokens=2, extra_tokens=3),
            Accepts(equal_lengths=True),
            "takes as many rows as slots; the case has 5 rows and 2 slots",
        ),
        (Case(k_view="offset1"), Accepts(align=16), "takes addresses in multiples of 16 bytes; K lies 2 past one"),
        (
            Case(),
            Accepts(align=4096),
            "takes addresses in multiples of 4096 bytes; allocations begin at multiples of 512",
        ),
    ],
)
def test_a_case_outside_a_limit_says_what_is_taken_and_what_it_has(case: Case, accepts: Accepts, reason: str) -> None:
    """One sentence; without the limit the same case is inside."""
    assert (_reason(case, accepts) or "").startswith(reason)
    assert _reason(case) is None


@pytest.mark.parametrize(
    ("case", "accepts"),
    [
        (Case(), Accepts(dtypes=("bf16",), head_dims=(128,), head_counts=(3,), tokens=(8,), slot_dtypes=("int64",))),
        (Case(head_dim=1, k_view="inner2", v_view="inner2"), Accepts(inner=1)),
        (Case(heads=1, k_view="head_padded", v_view="head_padded"), Accepts(head_pitch="dense")),
        (Case(k_view="qkv", v_view="qkv"), Accepts(same_pitch=True, head_pitch="dense", inner=1, align=16)),
        (Case(k_view="offset8"), Accepts(align=16)),
        (Case(), Accepts(equal_lengths=True)),
    ],
)
def test_a_case_inside_every_limit_is_run(case: Case, accepts: Accepts) -> None:
    """A stride that one element or one head never uses breaks no limit."""
    assert _reason(case, accepts) is None


@pytest.mark.parametrize("slots", ["negative_mixed", "all_negative"])
@pytest.mark.parametrize("rule", ["refuse", "undefined"])
def test_negative_slots_are_run_only_where_the_contract_skips_them(slots: str, rule: str) -> None:
    """The reason names the contract's own word."""
    contract = Contract(scale=Computed("token_head"), negative_slots="refuse" if rule == "refuse" else "undefined")
    reason = _reason(Case(slots=slots), contract=contract)
    assert reason == f"the contract says negative_slots={rule!r}; the case has {slots}"
    assert _reason(Case(slots=slots)) is None
    assert _reason(Case(slots=slots, tokens=0), contract=contract) is None


def _unplaced(case: Case, contract: Contract = CONTRACT, form: Form = Form()) -> str | None:  # noqa: B008 - frozen
    """The reason for a case whose own placement does not matter."""
    return outside_limits(case, contract, Accepts(), form, place(Case(), contract, form, Accepts(), cuda=False))


def test_duplicate_slots_are_run_unless_the_contract_leaves_them_open() -> None:
    """Any row of those that share a slot is right by default."""
    contract = Contract(scale=Computed("token_head"), duplicate_slots="undefined")
    reason = _unplaced(Case(slots="duplicates"), contract)
    assert reason == "the contract says duplicate_slots='undefined'; the case has duplicates"
    assert _unplaced(Case(slots="duplicates")) is None


def test_a_form_that_the_target_has_not_is_outside() -> None:
    """A case that names a form is for targets of that form; one that names none is for all."""
    assert _unplaced(Case(form="slots")) is None
    assert _unplaced(Case(), form=Form("pages")) is None
    assert _unplaced(Case(form="pages")) == "the target's cache is 'slots'; the case asks for 'pages'"


def test_a_load_target_has_no_views_to_be_outside_of() -> None:
    """Sizes count, strides of K and V do not exist."""
    contract = LoadContract()
    case, accepts = Case(), Accepts(inner=1, align=16, same_pitch=True, head_dims=(64,))
    placement = place(case, contract, Form(), accepts, cuda=False)
    assert outside_limits(case, contract, accepts, Form(), placement) == "takes head_dim 64; the case has 128"
    assert outside_limits(Case(), contract, Accepts(inner=1, align=16), Form(), placement) is None
