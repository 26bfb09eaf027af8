"""A contract of IEEE quotients over kernels that have none."""

from __future__ import annotations

import msgspec
import pytest

from kvcheck.contract import Computed, Contract, Given, LoadContract
from kvcheck.report.division import division
from kvcheck.report.sentences import notes
from kvcheck.schema import CompileFact, Report

from .samples import PASS, report

IEEE = Contract(scale=Computed("token_head"))
FULL = {"div.full.f32": 2}


def over(contract: Contract | LoadContract, *divisions: dict[str, int]) -> Report:
    """A report of kernels that divide so."""
    made = report(PASS, compiled=tuple(CompileFact("sm_90", "store", "compiled", divisions=each) for each in divisions))
    return msgspec.structs.replace(made, target=msgspec.structs.replace(made.target, contract=contract))


def test_the_term_and_the_instruction_are_named() -> None:
    """Among the notes of the report, whatever its cases did."""
    says = (
        'The contract says apply="divide" and derive="divide", the IEEE quotient; the kernels as compiled have none, '
        "only div.full.f32, rcp.approx.ftz.f32. Triton's / is divide_approx, an IEEE quotient is tl.div_rn."
    )
    found = over(IEEE, FULL, {"rcp.approx.ftz.f32": 1})
    assert division(found) == [says]
    assert says in notes(found)


@pytest.mark.parametrize(
    ("contract", "terms"),
    [
        (Contract(scale=Given("tensor")), 'apply="divide"'),
        (Contract(scale=Computed(derive="divide_approx")), 'apply="divide"'),
        (Contract(scale=Computed(), apply="divide_approx"), 'derive="divide"'),
    ],
)
def test_only_the_terms_that_promise_it_are_named(contract: Contract, terms: str) -> None:
    """A given scale is derived from nothing."""
    (line,) = division(over(contract, FULL))
    assert line.startswith(f"The contract says {terms}, the IEEE quotient; ")


@pytest.mark.parametrize(
    ("contract", "divisions"),
    [
        (IEEE, ()),
        (IEEE, ({},)),
        (IEEE, (FULL, {"div.rn.f32": 1})),
        (Contract(scale=Given("tensor"), apply="multiply_approx_reciprocal"), (FULL,)),
        (Contract(scale=None), (FULL,)),
        (LoadContract(), (FULL,)),
    ],
    ids=["nothing known", "no division", "one of either", "says approximate", "no scale", "load"],
)
def test_where_nothing_contradicts_nothing_is_said(
    contract: Contract | LoadContract, divisions: tuple[dict[str, int], ...]
) -> None:
    """One IEEE quotient among them may be the one that is promised."""
    assert division(over(contract, *divisions)) == []
