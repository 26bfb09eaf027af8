"""Scaled values and their codes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from kvcheck.contract import Computed, Contract, Given
from kvcheck.errors import FormatError
from kvcheck.formats.arithmetic import (
    apply_scale,
    contract_format,
    element_scales,
    right_codes,
    right_codes_exact,
    right_scales,
)
from kvcheck.formats.decode import decode

Floats = npt.NDArray[np.float32]


def _floats(*values: float) -> Floats:
    return np.array(values, dtype=np.float32)


X = _floats(1.1, -3.3, 448.0, 0.007)
S = _floats(0.3, 0.7, 1.5, 1e-3)


def test_each_arithmetic_is_its_own() -> None:
    """Quotient, product with the rounded reciprocal, and product with a given multiplier, each rounded to fp32."""
    wide_x, wide_s = X.astype(np.float64), S.astype(np.float64)
    quotient = (wide_x / wide_s).astype(np.float32)
    product = (wide_x * (1 / wide_s).astype(np.float32).astype(np.float64)).astype(np.float32)
    for apply in ("divide", "divide_approx", "power_of_two"):
        assert np.array_equal(apply_scale(Contract(scale=Computed(), apply=apply), X, S), quotient)
    for apply in ("multiply_reciprocal", "multiply_approx_reciprocal"):
        assert np.array_equal(apply_scale(Contract(scale=Computed(), apply=apply), X, S), product)  # type: ignore[arg-type]
    multiplier = Contract(scale=Given(direction="multiplier"), apply="multiply_reciprocal")
    assert np.array_equal(apply_scale(multiplier, X, S), (wide_x * wide_s).astype(np.float32))
    assert np.array_equal(apply_scale(Contract(scale=None), X, None), X)


def test_reciprocal_and_quotient_differ_somewhere() -> None:
    """On many values the two arithmetics are unlike, so that neither stands for the other."""
    x = np.linspace(0.1, 9, 1000, dtype=np.float32)
    s = np.full(1000, 0.3, dtype=np.float32)
    one, other = (
        apply_scale(Contract(scale=Computed(), apply=apply), x, s) for apply in ("divide", "multiply_reciprocal")
    )
    assert np.count_nonzero(one != other) > 100


def test_narrow_compute_rounds_inputs_and_result() -> None:
    """In bf16 and fp16 the value, the scale, the reciprocal and the result are all of that type."""
    for compute, kind in (("bf16", ml_dtypes.bfloat16), ("fp16", np.float16)):
        x, s = (each.astype(kind).astype(np.float32) for each in (X, S))
        contract = Contract(scale=Computed(), compute=compute)  # type: ignore[arg-type]
        assert np.array_equal(apply_scale(contract, X, S), (x / s).astype(kind).astype(np.float32))
        reciprocal = (np.float32(1) / s).astype(kind).astype(np.float32)
        contract = Contract(scale=Computed(), compute=compute, apply="multiply_reciprocal")  # type: ignore[arg-type]
        assert np.array_equal(apply_scale(contract, X, S), (x * reciprocal).astype(kind).astype(np.float32))
        contract = Contract(scale=None, compute=compute)  # type: ignore[arg-type]
        assert np.array_equal(apply_scale(contract, X, None), x)


def test_infinities_and_nan_do_as_ieee_says() -> None:
    """A row with an infinity has an infinite scale: finite values become zero, infinity NaN; none of it warns."""
    row = np.array([[[np.inf, 1.0, -1.0, 0.0]]], dtype=np.float32)
    contract = Contract(scale=Computed())
    assert isinstance(contract.scale, Computed)
    scale = element_scales(contract, right_scales(contract.scale, row), row.shape)
    assert right_codes(contract, row, scale).tolist() == [[[0x7F, 0x00, 0x80, 0x00]]]
    zero = _floats(0.0, 0.0, 0.0)
    assert right_codes(contract, _floats(1.0, -1.0, 0.0), zero).tolist() == [0x7E, 0xFE, 0x7F]
    assert right_codes(contract, _floats(1.0), _floats(np.nan)).tolist() == [0x7F]


def test_codes_follow_the_contracts_policies() -> None:
    """Format, rounding, overflow, NaN, -0 and the least value are the contract's."""
    x = _floats(17.0, 500.0, -np.nan, -0.0, -500.0)
    scale = np.ones_like(x)
    given = Given()
    cases = [
        (Contract(scale=given), [0x58, 0x7E, 0x7F, 0x80, 0xFE]),
        (Contract(scale=given, rounding="half_away", negative_zero="drop"), [0x59, 0x7E, 0x7F, 0x00, 0xFE]),
        (Contract(scale=given, overflow="nan", nan="keep_sign"), [0x58, 0x7F, 0xFF, 0x80, 0xFF]),
        (Contract(scale=given, nan="undefined"), [0x58, 0x7E, 0x7F, 0x80, 0xFE]),
        (Contract(scale=given, format="int8", minimum=-128.0), [0x11, 0x7F, 0x00, 0x00, 0x80]),
        (Contract(scale=given, minimum=-240.0), [0x58, 0x7E, 0x7F, 0x80, 0xF7]),
    ]
    for contract, want in cases:
        assert right_codes(contract, x, scale).tolist() == want
        assert right_codes_exact(contract, x, scale).tolist() == want


def test_a_row_reaches_the_largest_code_and_no_further() -> None:
    """The amax of every row has code 448 under the plain contract, and both oracles give the same codes."""
    x = np.random.default_rng(0).standard_normal((64, 3, 128)).astype(np.float32)
    contract = Contract(scale=Computed())
    assert isinstance(contract.scale, Computed)
    scale = element_scales(contract, right_scales(contract.scale, x), x.shape)
    codes = right_codes(contract, x, scale)
    assert np.array_equal(codes, right_codes_exact(contract, x, scale))
    assert np.all(np.abs(decode(codes)).max(axis=2) == 448)


def test_a_minimum_must_be_a_negative_value_of_the_format() -> None:
    """-241 is no e4m3fn value and -0 is not negative: the error says so."""
    assert contract_format(Contract(scale=None, minimum=-448.0)).least == 0xFE
    for minimum in (-241.0, 0.0, 1.0, float("-inf")):
        with pytest.raises(FormatError, match="is not a negative value of e4m3fn"):
            contract_format(Contract(scale=None, minimum=minimum))


def test_a_contract_with_a_scale_needs_it() -> None:
    """Leaving out the scale is a mistake of the caller, never an identity."""
    with pytest.raises(ValueError, match="the contract has a scale"):
        apply_scale(Contract(scale=Given()), X, None)
