"""Legal codes and scales, against exact fractions."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.contract import Computed, Contract, Derive, Given
from kvcheck.formats.arithmetic import (
    apply_scale,
    code_bounds,
    legal_scales,
    right_codes,
    right_scales,
    scale_bounds,
)
from kvcheck.formats.decode import decode

Floats = npt.NDArray[np.float32]
APPLY: tuple[Derive, ...] = ("divide_approx", "multiply_reciprocal", "multiply_approx_reciprocal")


def _floats(*values: float) -> Floats:
    return np.array(values, dtype=np.float32)


def _nearest(magnitude: Fraction, name: str) -> int:
    """The code of a real magnitude to nearest even, saturated: by looking at every value of the format."""
    distance = [abs(value - magnitude) for value in _magnitudes(name)]
    least = min(distance)
    near = [code for code, each in enumerate(distance) if each == least]
    return next((code for code in near if code % 2 == 0), near[0])


@lru_cache
def _magnitudes(name: str) -> tuple[Fraction, ...]:
    """The finite values of the format from zero up, by code."""
    values = decode(np.arange(0x80, dtype=np.uint8), name)
    return tuple(Fraction(float(value)) for value in values[np.isfinite(values)])


def _ends(contract: Contract, x: np.float32, scale: np.float32) -> tuple[Fraction, Fraction]:
    """The ends of the interval, as real numbers; signs left out."""
    top, factor = Fraction(abs(float(x))), Fraction(abs(float(scale)))
    if isinstance(contract.scale, Given) and contract.scale.direction == "multiplier":
        middle = top * factor
    elif contract.apply == "multiply_reciprocal":
        middle = top * Fraction(float(np.float32(1) / scale))
    else:
        middle = top / factor
    error = Fraction(contract.declared_ulps, 1 << 23)
    return middle * (1 - error), middle * (1 + error)


def _near_ties(name: str, scales: Floats, seed: int) -> tuple[Floats, Floats]:
    """Values whose quotient with their scale is within some ulps of a tie, and their scales; both signs."""
    random = np.random.default_rng(seed)
    values = decode(np.arange(0x80, dtype=np.uint8), name).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    ties = np.concatenate([(values[1:] + values[:-1]) / 2, values[-1:] + (values[-1] - values[-2]) / 2])
    tie, scale = np.repeat(ties, 2), random.choice(scales, 2 * len(ties))
    x = (tie * scale.astype(np.float64)).astype(np.float32)
    moved = (x.view(np.int32) + random.integers(-5, 6, x.size).astype(np.int32)).view(np.float32)
    return moved * random.choice(_floats(-1, 1), x.size), scale


SCALES = np.concatenate(
    [np.random.default_rng(7).uniform(1e-3, 4, 40).astype(np.float32), _floats(1, 2.0**-8, 0.5, 1 + 2.0**-22)]
)


@pytest.mark.parametrize("ulps", [1, 2, 32])
@pytest.mark.parametrize("name", ["e4m3fn", "e4m3fnuz", "e5m2", "int8"])
@pytest.mark.parametrize("apply", APPLY)
def test_bounds_near_ties_are_those_of_exact_fractions(apply: Derive, name: str, ulps: int) -> None:
    """Next to every tie of the format the two codes are those of the interval's ends as fractions."""
    contract = Contract(scale=Computed(), format=name, apply=apply, ulps=ulps)  # type: ignore[arg-type]
    x, scale = _near_ties(name, SCALES, ulps)
    least, greatest = code_bounds(contract, x, scale)
    both = 0
    for index in range(x.size):
        low, high = (_nearest(end, name) for end in _ends(contract, x[index], scale[index]))
        if x[index] < 0:
            low, high = high, low
        signed = np.array([low, high], dtype=np.uint8)
        if x[index] < 0:
            signed = -signed if name == "int8" else np.where((signed == 0) & (name == "e4m3fnuz"), 0, signed | 0x80)
        assert [least[index], greatest[index]] == signed.tolist(), (x[index], scale[index])
        both += low != high
    # The inputs do lie where an interval holds a tie.
    assert both > x.size // 10


def test_given_multipliers_have_intervals_around_the_product() -> None:
    """With a multiplier the middle is x times the scale."""
    contract = Contract(scale=Given(direction="multiplier"), ulps=2)
    x, scale = _near_ties("e4m3fn", (1 / SCALES).astype(np.float32), 5)
    x = np.abs((x.astype(np.float64) / scale / scale).astype(np.float32))
    least, greatest = code_bounds(contract, x, scale)
    want = [[_nearest(end, "e4m3fn") for end in _ends(contract, *pair)] for pair in zip(x, scale, strict=True)]
    assert np.array_equal(np.stack([least, greatest], axis=1), want)


@given(
    st.floats(2.0**-20, 2.0**20, width=32),
    st.floats(2.0**-10, 2.0**10, width=32),
    st.sampled_from(APPLY),
    st.integers(-2, 2),
)
def test_every_fp32_neighbour_of_the_quotient_is_legal(x: float, scale: float, apply: Derive, offset: int) -> None:
    """A kernel that is off by up to two fp32 numbers never has a code outside the two, and the right one is inside."""
    contract = Contract(scale=Computed(), apply=apply, ulps=3)
    xs, scales = _floats(x), _floats(scale)
    least, greatest = code_bounds(contract, xs, scales)
    scaled = (apply_scale(contract, xs, scales).view(np.int32) + np.int32(offset)).view(np.float32)
    assert right_codes(Contract(scale=None), scaled, None)[0] in (least[0], greatest[0])
    assert least[0] <= right_codes(contract, xs, scales)[0] <= greatest[0]
    assert greatest[0] - least[0] <= 1


def test_an_end_that_is_a_tie_exactly_goes_to_the_even_code() -> None:
    """x(1 + 2^-22) / (1 + 2^-22) is x: where x is a tie, the upper end is one, and only an even upper code is legal."""
    contract = Contract(scale=Computed(), apply="divide_approx")
    scale = _floats(1 + 2.0**-22, 1 + 2.0**-22)
    least, greatest = code_bounds(contract, _floats(17.0, 19.0), scale)
    assert least.tolist() == [0x58, 0x59]
    assert greatest.tolist() == [0x58, 0x5A]


def test_overflow_and_saturation_bound_the_interval() -> None:
    """Around 464 an interval holds 448 and, where overflow is NaN, NaN of the policy's sign; far above only that."""
    x, scale = _floats(464.0, -464.0, 1e9, 448.0), np.ones(4, dtype=np.float32)
    saturating = Contract(scale=Computed(), apply="divide_approx")
    assert [each.tolist() for each in code_bounds(saturating, x, scale)] == [[0x7E, 0xFE, 0x7E, 0x7E]] * 2
    for nan, negative in (("canonical", 0x7F), ("keep_sign", 0xFF)):
        contract = Contract(scale=Computed(), apply="divide_approx", overflow="nan", nan=nan)  # type: ignore[arg-type]
        least, greatest = code_bounds(contract, x, scale)
        assert least.tolist() == [0x7E, negative, 0x7F, 0x7E]
        assert greatest.tolist() == [0x7F, 0xFE, 0x7F, 0x7E]


@pytest.mark.parametrize("apply", APPLY)
def test_zeros_infinities_and_nan_have_one_code(apply: Derive) -> None:
    """Without a finite quotient above zero there is no interval: both codes are the right one, -0 included."""
    saturating = Contract(scale=Computed(), apply=apply, ulps=2)
    overflowing = Contract(scale=Computed(), apply=apply, ulps=2, overflow="nan")
    x = _floats(0.0, -0.0, np.inf, np.nan, 1.0, 1.0, 1.0, 0.0)
    scale = _floats(1.0, 1.0, 1.0, 1.0, 0.0, np.inf, np.nan, 0.0)
    for contract, beyond in ((saturating, 0x7E), (overflowing, 0x7F)):
        least, greatest = code_bounds(contract, x, scale)
        assert least.tolist() == greatest.tolist() == [0x00, 0x80, beyond, 0x7F, beyond, 0x00, 0x7F, 0x7F]


def test_underflow_keeps_or_drops_its_sign() -> None:
    """Around the tie 2^-10 below zero the codes are -2^-9 and -0, or 0 where -0 is dropped; never +0 otherwise."""
    x, scale = _floats(-(2.0**-10)), _floats(1.0)
    for negative_zero, zero in (("keep", 0x80), ("drop", 0x00)):
        contract = Contract(scale=Computed(), apply="divide_approx", negative_zero=negative_zero)  # type: ignore[arg-type]
        least, greatest = code_bounds(contract, x, scale)
        assert (least[0], greatest[0]) == (0x81, zero)


def test_exact_arithmetic_has_one_code() -> None:
    """Without a declared error both bounds are the right code."""
    contract = Contract(scale=Computed())
    x, scale = _near_ties("e4m3fn", SCALES, 3)
    least, greatest = code_bounds(contract, x, scale)
    assert np.array_equal(least, greatest)
    assert np.array_equal(least, right_codes(contract, x, scale))


AMAX = np.concatenate(
    [
        np.random.default_rng(1).uniform(1e-6, 500, 100).astype(np.float32),
        _floats(448, 224, 1, 2.0**-126, 1e-38, 3e-45, 1e38),
    ]
).reshape(-1, 1, 1)


@pytest.mark.parametrize("ulps", [1, 2, 3, 32])
@pytest.mark.parametrize("derive", APPLY)
def test_scale_bounds_are_the_last_fp32_numbers_inside(derive: Derive, ulps: int) -> None:
    """Both bounds lie within the declared error of the real quotient, and their neighbours outside do not."""
    least, greatest = scale_bounds(Computed(derive=derive, ulps=ulps), AMAX)
    reciprocal = Fraction(float(np.float32(1) / np.float32(448)))
    for amax, low, high in zip(AMAX.reshape(-1), least.reshape(-1), greatest.reshape(-1), strict=True):
        exact = derive == "multiply_reciprocal"
        middle = Fraction(float(amax)) * (reciprocal if exact else Fraction(1, 448))
        error = max(middle * Fraction(ulps, 1 << 23), Fraction(ulps, 1 << 149))
        for end, away in ((low, -np.inf), (high, np.inf)):
            assert abs(Fraction(float(end)) - middle) <= error
            outside = np.nextafter(end, np.float32(away))
            assert abs(Fraction(float(outside)) - middle) > error


def test_scale_bounds_hold_the_right_scale() -> None:
    """The right scale of every dtype, eps and zero row lies between the bounds, or is one of them."""
    amax = np.concatenate([AMAX, np.array([0, np.inf], dtype=np.float32).reshape(-1, 1, 1)])
    for rule in (
        Computed(derive="divide_approx"),
        Computed(derive="divide_approx", eps=1e-3, dtype="bf16"),
        Computed(derive="multiply_approx_reciprocal", eps=1e-5, eps_on="scale", zero_row=1.0),
        Computed(derive="power_of_two", ulps=1),
        Computed(derive="divide_approx", dtype="ue8m0"),
        Computed(derive="divide_approx", eps=1e-3, eps_as="added"),
        Computed(derive="multiply_approx_reciprocal", eps=1e-3, eps_on="scale", eps_as="added", dtype="fp16"),
        Computed(derive="power_of_two", ulps=1, eps=1e-3, eps_on="scale", eps_as="added"),
        Computed(),
    ):
        least, greatest = scale_bounds(rule, amax)
        right = right_scales(rule, amax)
        assert np.all((least <= right) & (right <= greatest))
        assert least[-1] == greatest[-1] == right[-1]
        if rule.eps_as == "least" or rule.eps_on == "scale":  # added to an amax of zero, eps is divided as any amax is
            assert least[-2] == greatest[-2] == right[-2]


@pytest.mark.parametrize("maximum", [1.7e38, 2.8e38])
def test_a_right_scale_far_from_the_quotient_is_within_its_bounds(maximum: float) -> None:
    """The reciprocal of a huge maximum is subnormal and rounds coarsely: the right product stays legal all the same."""
    rule = Computed(maximum=maximum, derive="multiply_approx_reciprocal", ulps=1)
    x = np.geomspace(1, 1e38, 50, dtype=np.float32).reshape(-1, 1, 1)
    right = right_scales(rule, x)
    least, greatest = scale_bounds(rule, x)
    assert np.all((least <= right) & (right <= greatest))
    assert np.all(legal_scales(rule, right, x))
    quotient = x[:, 0].astype(np.float64) / np.float64(np.float32(maximum))
    assert np.any(np.abs(right - quotient) > quotient * 2.0**-23)


@pytest.mark.parametrize("granularity", ["tensor", "token", "head", "block:2"])
def test_scale_bounds_have_the_scales_shape(granularity: str) -> None:
    """One ulp on either side of a scale of one, for every population, is within two ulps and three are not."""
    rule = Computed(granularity, derive="divide_approx")
    x = np.full((2, 3, 4), 448, dtype=np.float32)
    least, greatest = scale_bounds(rule, x)
    right = right_scales(rule, x)
    assert least.shape == greatest.shape == right.shape
    assert least.dtype == greatest.dtype == np.float32
    assert np.all(least == np.float32(1 - 4 * 2.0**-24))
    assert np.all(greatest == np.float32(1 + 2 * 2.0**-23))
    assert np.all(legal_scales(rule, np.nextafter(right, np.float32(2)), x))
    assert not np.any(legal_scales(rule, np.nextafter(greatest, np.float32(2)), x))


def test_legal_scales_are_within_and_of_the_rules_kind() -> None:
    """A scale is legal within the bounds alone, and only where the rule's dtype or powers of two have it."""
    x = _floats(448.0, 448.0, 448.0, 448.0).reshape(4, 1, 1)
    ulp = 2.0**-23
    scales = _floats(1.0, 1 + 2 * ulp, 1 + 3 * ulp, 1 - 2 * ulp).reshape(4, 1)
    assert legal_scales(Computed(derive="divide_approx"), scales, x)[:, 0].tolist() == [True, True, False, True]
    assert legal_scales(Computed(), scales, x)[:, 0].tolist() == [True, False, False, False]
    rounded = Computed(derive="divide_approx", dtype="bf16")
    assert legal_scales(rounded, scales, x)[:, 0].tolist() == [True, False, False, False]
    powers = Computed(derive="power_of_two", ulps=1)
    scales = _floats(1.0, 2.0, 1 + ulp, 0.5).reshape(4, 1)
    assert legal_scales(powers, scales, x)[:, 0].tolist() == [True, True, False, False]


@given(
    st.floats(2.0**-60, 2.0**60, width=32), st.sampled_from([1e-10, 1e-8, 1e-4, 0.5]), st.sampled_from([127.0, 448.0])
)
def test_a_sum_is_legal_where_it_is_of_a_legal_quotient(amax: float, eps: float, maximum: float) -> None:
    """So is the sum of an approximate product and eps that one instruction rounds: fma(amax, 1 / maximum, eps)."""
    x = np.array([[[amax]]], dtype=np.float32)
    rule = Computed(maximum=maximum, eps=eps, eps_on="scale", eps_as="added", derive="divide_approx")
    quotient = np.float32(amax) / np.float32(maximum)
    for legal in (quotient, np.nextafter(quotient, np.float32(np.inf)), np.nextafter(quotient, np.float32(0))):
        total = np.array([[legal + np.float32(eps)]], dtype=np.float32)
        assert legal_scales(rule, total, x).all()
    reciprocal = Fraction(float(np.float32(1) / np.float32(maximum)))
    exact = Fraction(float(np.float32(amax))) * reciprocal + Fraction(float(np.float32(eps)))
    fused = np.array([[float(exact)]], dtype=np.float64).astype(np.float32)
    assert legal_scales(rule, fused, x).all()
    wrong = np.array([[quotient + np.float32(2 * eps)]], dtype=np.float32)
    if eps > quotient * 1e-4:
        assert not legal_scales(rule, wrong, x).any()


def test_a_power_of_two_and_a_number_more_is_legal_as_the_sum() -> None:
    """And not as the power alone."""
    rule = Computed(derive="power_of_two", ulps=1, eps=0.25, eps_on="scale", eps_as="added")
    x = _floats(448.0, 448.0, 448.0).reshape(3, 1, 1)
    assert legal_scales(rule, _floats(1.25, 2.25, 1.0).reshape(3, 1), x)[:, 0].tolist() == [True, True, False]


def test_scales_are_compared_as_bits_but_for_nan() -> None:
    """Any NaN is as good as another; -0 is not 0."""
    rule = Computed(nan="propagate")
    x = _floats(np.nan, 0.0, 0.0).reshape(3, 1, 1)
    assert legal_scales(rule, _floats(-np.nan, 0.0, -0.0).reshape(3, 1), x)[:, 0].tolist() == [True, True, False]
