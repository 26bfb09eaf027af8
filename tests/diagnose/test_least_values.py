"""A number that a contract adds to every scale, or amax: what kernels make of it, named by the bytes."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from judge.emulate import emulate

from kvcheck.contract import Computed, Contract
from kvcheck.diagnose import diagnose
from kvcheck.formats.arithmetic import right_scales
from kvcheck.judge import judge
from kvcheck.schema import Case

from .test_scale_forms import followed, named
from .test_scales import Floats, Rule, kernel

EPS = 1e-4
ON_SCALE = Computed("token_head", eps=EPS, eps_on="scale", eps_as="added")
ON_AMAX = Computed("token_head", eps=EPS, eps_as="added")
LEAST = Computed("token_head", eps=EPS, eps_on="scale")
CASE = Case(tokens=32, dtype="fp32", k_values="normal*2^-6", v_values="normal*2^-6")


def by(rule: Computed) -> Rule:
    """A store with scales of a rule."""
    return lambda x: followed(right_scales(rule, x), x)


def other(eps: float, rule: Computed = ON_SCALE) -> Computed:
    """A rule with another eps."""
    return msgspec.structs.replace(rule, eps=eps)


@pytest.mark.parametrize("rule", [ON_SCALE, ON_AMAX])
def test_a_store_that_adds_what_is_due_is_right(rule: Computed) -> None:
    """Every scale exact, and other numbers than without."""
    emission = emulate(kernel(by(rule), "kv"), CASE)
    verdict = judge(msgspec.structs.replace(emission, contract=Contract(scale=rule)))
    assert (verdict.outcome, verdict.scales.wrong, verdict.scales.compared) == ("pass", 0, 2 * 32 * 3)
    assert judge(emission).scales.wrong == 2 * 32 * 3
    assert not diagnose(msgspec.structs.replace(emission, contract=Contract(scale=rule)), verdict)


@pytest.mark.parametrize(
    ("due", "made", "words"),
    [
        (ON_SCALE, other(0.0), "have nothing added; 0.0001 is due, added to each scale"),
        (ON_AMAX, other(0.0), "have nothing added; 0.0001 is due, added to each amax"),
        (ON_SCALE, other(EPS, ON_AMAX), "have 0.0001 added to the amax; it is due on the scale"),
        (ON_AMAX, ON_SCALE, "have 0.0001 added to the scale; it is due on the amax"),
        (ON_SCALE, LEAST, "have 0.0001 as the least value of the scale; it is due, added to each"),
        (ON_SCALE, other(1e-3), "have 0.001 added to the scale, where 0.0001 more than the scale is due"),
        (LEAST, ON_SCALE, "have 0.0001 added to the scale, where the larger of the two is due"),
    ],
)
def test_what_is_made_of_it_is_named(due: Computed, made: Computed, words: str) -> None:
    """For both tensors, with all their wrong bytes, and nothing beside it."""
    found = named(by(made), CASE, Contract(scale=due))
    assert sorted((each.fault, each.tensor) for each in found) == [("zero-row", "k"), ("zero-row", "v")]
    assert all(words in each.says and each.explains == each.of > 0 for each in found), found[0].says


def test_a_recovered_number_that_is_the_contracts_own_is_no_finding() -> None:
    """Scales of another maximum with what is due added are no other number added."""

    def rule(x: Floats) -> tuple[Floats, Floats]:
        return followed(right_scales(msgspec.structs.replace(ON_SCALE, maximum=240.0), x), x)

    found = named(rule, CASE, Contract(scale=ON_SCALE))
    assert all("added" not in each.says for each in found)


def test_what_is_too_small_to_show_is_no_fault() -> None:
    """A number below half an ulp of every scale leaves the bytes that it leaves when it is due."""
    tiny = other(1e-12)
    emission = emulate(kernel(by(other(0.0)), "kv"), CASE)
    verdict = judge(msgspec.structs.replace(emission, contract=Contract(scale=tiny)))
    assert verdict.outcome == "pass"
    assert np.float32(1e-12) > 0
