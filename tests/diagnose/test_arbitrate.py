"""Which explanations are named, in which order, and what is said of bytes that none of them gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from judge.emulate import Memory, amax_scale, e4m3, emulate, store

from kvcheck.contract import Contract
from kvcheck.diagnose.arbitrate import arbitrate
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import Facts
from kvcheck.judge import judge
from kvcheck.schema import Case


def negated(memory: Memory) -> None:
    """Negate V's codes: all of them but zeros are wrong, and no scale is."""
    store(memory)
    x = memory.read("v")
    codes = e4m3(-x / amax_scale(x)[:, :, None])
    for token, slot in enumerate(memory.slots):
        memory.write("v_codes", int(slot), codes[token])


def facts() -> Facts:
    """Of a case whose V is negated."""
    emission = emulate(negated, Case(tokens=2, heads=2, head_dim=16))
    assert isinstance(emission.contract, Contract)
    return Facts(emission, emission.contract, judge(emission))


def of_v(fault: str, rows: slice, cost: int = 1, beside: tuple[Explanation, ...] = ()) -> Explanation:
    """An explanation of the codes of some tokens of V."""
    codes = np.zeros((2, 2, 16), np.bool_)
    codes[rows] = True
    return Explanation(fault, "v", codes, None, 0, 0, cost, fault, {"n": 1}, beside)


def of_others(fault: str, others: int, of: int) -> Explanation:
    """An explanation of bytes that are no stored codes or scales."""
    return Explanation(fault, "", None, None, others, of, 1, fault)


def test_the_one_that_gives_most_comes_first_and_what_it_gives_is_not_asked_for_again() -> None:
    """A part of what was explained already is no second fault."""
    found = arbitrate(facts(), [of_v("part", slice(0, 1)), of_v("all", slice(0, 2))])
    assert [(each.fault, each.explains, each.of) for each in found] == [("all", 64, 64)]
    assert found[0].says == "all; explains 64 of 64 wrong codes"
    assert found[0].evidence == {"n": 1}


def test_two_that_share_the_bytes_are_both_named() -> None:
    """Each gives half."""
    found = arbitrate(facts(), [of_v("first", slice(0, 1)), of_v("second", slice(1, 2))])
    assert [(each.fault, each.explains) for each in found] == [("first", 32), ("second", 32)]


def test_of_equals_the_simplest_is_named_then_the_first() -> None:
    """Two parameters lose against one, whatever their order."""
    dear, cheap, late = (of_v(name, slice(0, 2), cost) for name, cost in (("dear", 2), ("cheap", 1), ("late", 1)))
    assert [each.fault for each in arbitrate(facts(), [dear, cheap, late])] == ["cheap"]


def test_what_nothing_explains_is_said_with_the_last() -> None:
    """Half of V's codes are left."""
    (found,) = arbitrate(facts(), [of_v("half", slice(0, 1))])
    assert found.says == "half; explains 32 of 64 wrong codes; 32 wrong codes and scales stay unexplained"
    assert found.evidence == {"n": 1, "unexplained": 32}


def test_a_second_cause_of_the_same_bytes_is_named_after_the_first() -> None:
    """An address and a rounding together."""
    joint = of_v("address", slice(0, 2), beside=(of_v("rounding", slice(0, 2)),))
    assert [each.fault for each in arbitrate(facts(), [joint])] == ["address", "rounding"]


def test_bytes_that_are_no_codes_are_counted() -> None:
    """Lost and stray bytes; the second to explain them has nothing left."""
    found = arbitrate(facts(), [of_others("lost", 3, 3), of_others("again", 2, 3)])
    assert [(each.fault, each.explains, each.of) for each in found] == [("lost", 3, 3)]
    assert found[0].says.startswith("lost; explains 3 of 3 wrong bytes; 64 wrong codes")


def test_no_explanation_is_no_diagnosis() -> None:
    """And neither is one that gives nothing."""
    assert arbitrate(facts(), []) == ()
    assert arbitrate(facts(), [of_v("nothing", slice(0, 0))]) == ()


def test_of_equals_the_fault_that_is_met_in_the_other_tensor_too_comes_first() -> None:
    """One cause of both, though it costs more, before two causes."""
    of_k = replace(of_v("shared", slice(0, 2), 2), tensor="k")
    found = arbitrate(facts(), [of_v("cheap", slice(0, 2)), of_v("shared", slice(0, 2), 2), of_k])
    assert [(each.fault, each.tensor) for each in found] == [("shared", "v")]
