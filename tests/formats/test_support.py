"""Which contracts can be judged."""

from __future__ import annotations

import pytest

from kvcheck.contract import Computed, Contract, Given
from kvcheck.formats.arithmetic import exact_arithmetic, is_supported


def test_arithmetic_without_declared_error_is_exact() -> None:
    """Division is exact, its approximation is not, and `ulps` overrides both."""
    assert exact_arithmetic(Contract(scale=Computed()))
    assert exact_arithmetic(Contract(scale=None, apply="divide_approx"))
    assert exact_arithmetic(Contract(scale=Computed(), apply="divide_approx", ulps=0))
    assert not exact_arithmetic(Contract(scale=Computed(), apply="divide_approx"))
    assert not exact_arithmetic(Contract(scale=Computed(), ulps=1))


@pytest.mark.parametrize(
    "contract",
    [
        Contract(scale=Computed()),
        Contract(scale=None, format="e5m2", overflow="nan", nan="keep_sign"),
        Contract(scale=Given("head", direction="multiplier"), apply="multiply_approx_reciprocal", compute="fp32"),
        Contract(scale=Computed("block:16", dtype="ue8m0", derive="power_of_two"), format="int8", minimum=-128.0),
        Contract(scale=Computed(), compute="bf16", nan="undefined"),
        Contract(scale=Computed(ulps=32), ulps=32),
    ],
)
def test_contracts_that_can_be_judged(contract: Contract) -> None:
    """None means that the contract can be judged."""
    assert is_supported(contract) is None


@pytest.mark.parametrize(
    ("contract", "says"),
    [
        (Contract(scale=None, format="int8", overflow="nan"), "int8 has no NaN to overflow to"),
        (Contract(scale=None, format="e5m2fnuz", nan="keep_sign"), "e5m2fnuz has no NaN with a sign"),
        (Contract(scale=None, minimum=-447.0), "minimum -447.0 is not a negative value of e4m3fn"),
        (Contract(scale=None, minimum=-240.0, overflow="nan"), "least value of its own"),
        (Contract(scale=Given(), ulps=33), "apply declares 33 ulps; intervals are exact from 0 to 32"),
        (Contract(scale=Given(), ulps=1, compute="fp16"), "apply declares 1 ulps of fp32, and compute is fp16"),
        (Contract(scale=Computed(ulps=33)), "the scale declares 33 ulps"),
    ],
)
def test_contracts_that_cannot_be_judged_say_why(contract: Contract, says: str) -> None:
    """The reason is one line that names the part of the contract."""
    reason = is_supported(contract)
    assert reason is not None
    assert says in reason
    assert "\n" not in reason
