"""Scales against values worked out by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from kvcheck.contract import Computed, Contract, Derive, Given
from kvcheck.formats.arithmetic import element_scales, right_scales

Floats = npt.NDArray[np.float32]

# Two tokens of two heads of five elements.
ROWS: Floats = np.array(
    [[[1, -7, 3, 0, 2], [0, 0, 0, 0, 0]], [[-4, 4, 1, 1, -14], [0.5, 0.25, 0, 0, -0.125]]], dtype=np.float32
)


def _row(*values: float) -> Floats:
    return np.array([[values]], dtype=np.float32)


@pytest.mark.parametrize(
    ("granularity", "want"),
    [
        ("token_head", [[7, 0], [14, 0.5]]),
        ("token", [7, 14]),
        ("head", [14, 0.5]),
        ("tensor", 14),
        ("block:2", [[[7, 3, 2], [0, 0, 0]], [[4, 1, 14], [0.5, 0, 0.125]]]),
        ("block:5", [[[7], [0]], [[14], [0.5]]]),
        ("block:16", [[[7], [0]], [[14], [0.5]]]),
    ],
)
def test_each_granularity_has_its_population(granularity: str, want: object) -> None:
    """With a maximum of one the scale is the amax of its token and head, token, head, tensor or block."""
    scales = right_scales(Computed(granularity, maximum=1.0), ROWS)
    assert scales.dtype == np.float32
    assert scales.tolist() == want


@pytest.mark.parametrize(
    ("shape", "granularity", "want"),
    [
        ((0, 2, 4), "token_head", (0, 2)),
        ((2, 2, 0), "token_head", (2, 2)),
        ((0, 2, 4), "tensor", ()),
        ((2, 3, 0), "block:4", (2, 3, 0)),
        ((0, 3, 5), "block:4", (0, 3, 2)),
    ],
)
def test_empty_inputs_have_scales_of_their_shape(
    shape: tuple[int, ...], granularity: str, want: tuple[int, ...]
) -> None:
    """No tokens or no elements give no scales, or those of an amax of zero."""
    scales = right_scales(Computed(granularity), np.zeros(shape, dtype=np.float32))
    assert scales.shape == want
    assert not scales.any()


def _rounded(value: Fraction) -> float:
    """A positive fraction of normal size as the nearest fp32, ties to even."""
    exponent = 0
    while value >= 1 << 24:
        value, exponent = value / 2, exponent + 1
    while value < 1 << 23:
        value, exponent = value * 2, exponent - 1
    return math.ldexp(round(value), exponent)


@pytest.mark.parametrize("amax", [448.0, 1.0, 3.3, 0.01, 1e-20, 12345.678, 7.0])
def test_divisions_are_rounded_once_or_twice(amax: float) -> None:
    """`divide` is the rounded quotient; the reciprocal form is rounded, multiplied, and rounded again."""
    x = np.float32(amax)
    reciprocal = _rounded(Fraction(1, 448))
    want: dict[Derive, float] = {
        "divide": _rounded(Fraction(float(x)) / 448),
        "divide_approx": _rounded(Fraction(float(x)) / 448),
        "multiply_reciprocal": _rounded(Fraction(float(x)) * Fraction(reciprocal)),
        "multiply_approx_reciprocal": _rounded(Fraction(float(x)) * Fraction(reciprocal)),
    }
    for derive, scale in want.items():
        assert right_scales(Computed(derive=derive), _row(x, 0))[0, 0] == scale


def test_the_two_divisions_differ_somewhere() -> None:
    """Dividing by 448 and multiplying by its reciprocal are unlike for about half of all values."""
    x = np.arange(1, 1001, dtype=np.float32).reshape(1000, 1, 1)
    quotient, product = (right_scales(Computed(derive=derive), x) for derive in ("divide", "multiply_reciprocal"))
    assert 300 < np.count_nonzero(quotient != product) < 700
    assert right_scales(Computed(), _row(448.0))[0, 0] == 1.0


@pytest.mark.parametrize(("amax", "want"), [(448.0, 1.0), (449.0, 2.0), (224.0, 0.5), (1.0, 2.0**-8), (0.0, 0.0)])
def test_power_of_two_rounds_up(amax: float, want: float) -> None:
    """The scale is the least power of two that keeps the amax within 448."""
    assert right_scales(Computed(derive="power_of_two"), _row(amax, 0.0))[0, 0] == np.float32(want)


def test_eps_bounds_the_amax_or_the_scale() -> None:
    """The same eps means another floor on either side of the division."""
    rows = np.concatenate([_row(0.0), _row(448.0)])
    on_amax = right_scales(Computed(eps=1e-10), rows)
    assert on_amax.tolist() == [[float(np.float32(1e-10) / np.float32(448))], [1.0]]
    on_scale = right_scales(Computed(eps=1e-10, eps_on="scale"), rows)
    assert on_scale.tolist() == [[float(np.float32(1e-10))], [1.0]]
    below_one = Computed(maximum=0.5, eps=1e-10, eps_on="scale")
    assert right_scales(below_one, rows)[0, 0] == np.float32(1e-10)


def test_eps_is_added_in_fp32_to_the_amax_or_the_scale() -> None:
    """Each sum is rounded once; where eps is less than half an ulp nothing changes."""
    rows = np.concatenate([_row(0.0), _row(3.3), _row(1e-5), _row(448.0)])
    eps, amax = np.float32(1e-8), np.abs(rows).max(2)
    quotient = [_rounded(Fraction(float(each)) / 127) if each else 0.0 for each in amax[:, 0]]
    want = [_rounded(Fraction(each) + Fraction(float(eps))) for each in quotient]
    on_scale = right_scales(Computed(maximum=127.0, eps=1e-8, eps_on="scale", eps_as="added"), rows)
    assert on_scale[:, 0].tolist() == want
    assert on_scale[0, 0] == eps
    sums = [_rounded(Fraction(float(each)) + Fraction(float(eps))) for each in amax[:, 0]]
    on_amax = right_scales(Computed(maximum=127.0, eps=1e-8, eps_as="added"), rows)
    assert on_amax[:, 0].tolist() == [_rounded(Fraction(each) / 127) for each in sums]
    assert sums[-1] == 448.0
    assert sums[1:3] != amax[1:3, 0].tolist()


def test_what_is_added_to_a_scale_comes_before_its_dtype_and_behind_its_division() -> None:
    """A row of zeros has the rule's own scale; NaN stays NaN; a power of two and a number more is none."""
    rows = np.concatenate([_row(0.0, 0.0), _row(448.0, 1.0), _row(np.nan, 1.0)])
    rule = Computed(eps=2.0**-9, eps_on="scale", eps_as="added", dtype="bf16", zero_row=1.0, nan="propagate")
    found = right_scales(rule, rows)[:, 0]
    assert found[:2].tolist() == [1.0, 1.0]  # 1 + 2^-9 ties to even in bf16
    assert np.isnan(found[2])
    above = Computed(derive="power_of_two", eps=0.25, eps_on="scale", eps_as="added")
    assert right_scales(above, rows)[:2, 0].tolist() == [0.25, 1.25]


def test_zero_rows_have_the_scale_that_the_rule_names() -> None:
    """`zero_row` holds for an amax of zero alone, whatever eps says, and is rounded to the dtype."""
    rows = np.concatenate([_row(0.0, -0.0), _row(0.0, 1e-30)])
    rule = Computed(eps=1e-4, zero_row=1.001, dtype="bf16")
    assert right_scales(rule, rows)[:, 0].tolist() == [1.0, float(2**-22 * 0.9375)]


@pytest.mark.parametrize(
    ("dtype", "want"),
    [
        ("fp32", float(np.float32(1) / np.float32(448))),
        ("fp16", float(np.float16(np.float32(1) / np.float32(448)))),
        ("bf16", 0.0022277832),
        ("ue8m0", 2.0**-8),
    ],
)
def test_scales_are_rounded_to_their_dtype(dtype: str, want: float) -> None:
    """1/448 becomes the nearest value of fp16 and bf16, and the next power of two of E8M0."""
    rule = Computed(dtype=dtype)  # type: ignore[arg-type]
    assert right_scales(rule, _row(1.0))[0, 0] == np.float32(want)


def test_zero_in_ue8m0_is_its_least_value() -> None:
    """E8M0 has no zero: a row of zeros without eps has the scale 2^-127."""
    assert right_scales(Computed(dtype="ue8m0"), _row(0.0))[0, 0] == np.float32(2.0**-127)


def test_nan_is_ignored_or_propagated() -> None:
    """A NaN leaves its population's scale alone or makes it NaN; a population of NaN alone counts as zero."""
    rows = np.concatenate([_row(np.nan, -448.0), _row(np.nan, np.nan), _row(1.0, 448.0)])
    assert right_scales(Computed(), rows)[:, 0].tolist() == [1.0, 0.0, 1.0]
    spread = right_scales(Computed(nan="propagate", eps=1e-3, zero_row=1.0), rows)[:, 0]
    assert np.isnan(spread).tolist() == [True, True, False]
    on_scale = right_scales(Computed(nan="propagate", eps=1e-3, eps_on="scale"), rows)[:, 0]
    assert np.isnan(on_scale).tolist() == [True, True, False]


def test_an_infinite_amax_gives_an_infinite_scale() -> None:
    """Infinity over 448 is infinity, silently, in fp32 and bf16."""
    for dtype in ("fp32", "bf16"):
        assert right_scales(Computed(dtype=dtype), _row(-np.inf, 1.0))[0, 0] == np.inf


@pytest.mark.parametrize("granularity", ["token_head", "token", "head", "tensor", "block:2", "block:5", "block:16"])
def test_computed_scales_spread_over_their_population(granularity: str) -> None:
    """Every element is given the scale of its own population: with a maximum of one no element exceeds it."""
    contract = Contract(scale=Computed(granularity, maximum=1.0))
    assert isinstance(contract.scale, Computed)
    scales = right_scales(contract.scale, ROWS)
    elements = element_scales(contract, scales, ROWS.shape)
    assert elements.shape == ROWS.shape
    assert np.all(np.abs(ROWS) <= elements)
    assert set(elements.reshape(-1).tolist()) == set(scales.reshape(-1).tolist())


def test_given_scales_spread_over_the_tensor_or_its_heads() -> None:
    """One given scale holds for all elements, whether `[]` or `[1]`; one a head for that head."""
    tensor, head = Contract(scale=Given()), Contract(scale=Given("head"))
    for scale in (np.array(2, dtype=np.float32), np.array([2], dtype=np.float32)):
        assert np.array_equal(element_scales(tensor, scale, (2, 3, 4)), np.full((2, 3, 4), 2))
    elements = element_scales(head, np.array([1, 2, 3], dtype=np.float32), (2, 3, 4))
    assert elements[:, :, 0].tolist() == [[1, 2, 3], [1, 2, 3]]


def test_scales_that_do_not_fit_are_refused() -> None:
    """Scales of another shape, and scales for a contract without any, raise ValueError."""
    with pytest.raises(ValueError, match="reshape"):
        element_scales(Contract(scale=Computed()), np.ones((2, 2), dtype=np.float32), (2, 3, 4))
    with pytest.raises(ValueError, match="has no scale"):
        element_scales(Contract(scale=None), np.ones(1, dtype=np.float32), (2, 3, 4))
