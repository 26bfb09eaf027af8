"""Formats and policies as data."""

from __future__ import annotations

from typing import get_args

import pytest

from kvcheck.errors import FormatError
from kvcheck.formats.spec import (
    E4M3FN,
    E5M2,
    FORMATS,
    INT8,
    Overflow,
    Policy,
    check_policy,
    find_format,
    policy_error,
    with_least,
)


def test_formats_are_found_by_name() -> None:
    """Every name gives the format of that name, and a format gives itself."""
    assert list(FORMATS) == ["e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "int8"]
    assert [find_format(name).name for name in FORMATS] == list(FORMATS)
    assert find_format(E5M2) is E5M2


def test_an_unknown_name_says_what_is_known() -> None:
    """If no format has the name, the error names it and lists the formats."""
    with pytest.raises(FormatError, match="'e3m4' is not known; expected one of e4m3fn, e4m3fnuz"):
        find_format("e3m4")


@pytest.mark.parametrize(
    ("name", "exponent"), [("e4m3fn", -9), ("e4m3fnuz", -10), ("e5m2", -16), ("e5m2fnuz", -17), ("int8", 0)]
)
def test_subnormal_step_is_the_least_value_above_zero(name: str, exponent: int) -> None:
    """Steps next to zero are 2^-9 in e4m3fn, 2^-16 in e5m2, one in int8."""
    assert FORMATS[name].subnormal_step == exponent


def test_only_int8_is_an_integer() -> None:
    """A format without exponent bits is an integer."""
    assert [name for name, each in FORMATS.items() if each.integer] == ["int8"]


@pytest.mark.parametrize(
    ("policy", "name", "says"),
    [
        (Policy(overflow="nan"), "int8", "overflow 'nan': int8 has no NaN to overflow to"),
        (Policy(nan="keep_sign"), "int8", "nan 'keep_sign': int8 has no NaN with a sign"),
        (Policy(nan="keep_sign"), "e4m3fnuz", "nan 'keep_sign': e4m3fnuz has no NaN with a sign"),
        (Policy(rounding="up"), "e4m3fn", "rounding 'up' is not known; expected one of rne, rtz, half_away"),  # type: ignore[arg-type]
        (Policy(overflow="wrap"), "e4m3fn", "overflow 'wrap' is not known"),  # type: ignore[arg-type]
        (Policy(nan="undefined"), "e4m3fn", "nan 'undefined' is not known"),  # type: ignore[arg-type]
        (Policy(negative_zero="?"), "e4m3fn", "negative_zero '\\?' is not known"),  # type: ignore[arg-type]
    ],
)
def test_policies_that_a_format_cannot_have_are_refused(policy: Policy, name: str, says: str) -> None:
    """A policy that needs a NaN, or a sign on it, is refused by formats without; so are unknown words."""
    with pytest.raises(FormatError, match=says):
        check_policy(name, policy)


@pytest.mark.parametrize("overflow", get_args(Overflow))
def test_policies_that_fit_are_taken(overflow: Overflow) -> None:
    """e5m2 overflows to infinity under 'nan', so both overflow policies fit."""
    assert check_policy("e5m2", Policy(overflow=overflow, nan="keep_sign")) is E5M2


def test_least_value_can_be_set_within_the_negative_codes() -> None:
    """int8 can go down to -128 and floats stop early; a least code that is not negative is refused."""
    assert with_least("int8", 0x80).least == 0x80
    assert with_least("e4m3fn", 0xF7).least == 0xF7
    for name, code in (("int8", 0x7F), ("e4m3fn", 0x80), ("e4m3fn", 0xFF), ("e5m2", 0xFC)):
        with pytest.raises(FormatError, match="is not that of a negative value"):
            with_least(name, code)


def test_a_least_value_of_its_own_saturates() -> None:
    """Overflow to NaN has no meaning below a least value that is not the format's own."""
    assert policy_error(with_least(E4M3FN, 0xF7), Policy(overflow="nan")) is not None
    assert policy_error(with_least(E4M3FN, 0xFE), Policy(overflow="nan")) is None
    assert policy_error(with_least(INT8, 0x80), Policy()) is None
