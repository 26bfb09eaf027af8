"""The host reference store: right wherever a target could be, or kvcheck would blame itself for nothing."""

from __future__ import annotations

import pytest
import torch
from sketches.running import judged

from kvcheck import Cache, store_target
from kvcheck.contract import Computed, Contract, Derive, Form
from kvcheck.schema import Case


def _passes(contract: Contract, case: Case, form: Form | None = None) -> int:
    """Assert that the reference passes in a target's place; the codes compared."""

    @store_target("never-called", contract=contract, cache=form)
    def never(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:  # noqa: ARG001 - the interface
        raise AssertionError

    verdict = judged(never, case, reference=True)
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    return verdict.codes.compared


@pytest.mark.parametrize(
    ("case", "rows"),
    [
        (Case(tokens=5), 5),
        (Case(tokens=5, slots="duplicates"), 3),
        (Case(tokens=5, slots="all_negative"), 0),
        (Case(tokens=3, extra_tokens=4, k_view="qkv", slots="permuted"), 3),
        (Case(tokens=0, extra_tokens=4), 0),
        (Case(tokens=8, extra_tokens=1, slots="duplicates", v_view="inner2", dtype="fp32"), 4),
    ],
)
def test_rows_beyond_the_slots_and_shared_slots(case: Case, rows: int) -> None:
    """As many rows as slots are stored; of tokens that share a slot, one."""
    assert _passes(Contract(scale=Computed("token_head")), case) == rows * 3 * 2 * 128


@pytest.mark.parametrize("values", ["normal", "all_zero", "inf", "normal*2^-20"])
@pytest.mark.parametrize("derive", ["divide", "power_of_two"])
def test_scales_that_are_exponents(values: str, derive: Derive) -> None:
    """E8M0 scales are stored as their bytes: the least, the greatest, and those between."""
    contract = Contract(scale=Computed("token_head", derive=derive, dtype="ue8m0"))
    assert _passes(contract, Case(tokens=2, k_values=values, v_values=values)) > 0


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_scales_that_are_narrow(dtype: str) -> None:
    """A scale of two bytes is stored as such."""
    contract = Contract(scale=Computed("token_head", eps=1e-3, dtype="fp16" if dtype == "fp16" else "bf16"))
    assert _passes(contract, Case(tokens=2), Form("pages", page=4)) > 0
