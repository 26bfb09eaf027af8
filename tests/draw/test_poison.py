"""Poison: larger than what it surrounds, never constant, never beyond what its dtype and a given scale can show."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.draw.dtypes import SourceDtype, greatest, to_float32
from kvcheck.draw.poison import can_be_seen, level, ordinary, poison, stands_out, with_nan

DTYPES = st.sampled_from(["bf16", "fp16", "fp32"])
SIZES = st.floats(2.0**-20, 2.0**10)


@given(SIZES, DTYPES)
def test_levels_are_4_and_16_times_the_amax(amax: float, dtype: SourceDtype) -> None:
    """Of the nearest tensor, up to the next power of two; 4 and 16 where that is zero; never beyond the dtype."""
    for letter, factor in (("A", 4), ("B", 16)):
        found = level(amax, dtype, "A" if letter == "A" else "B", None)
        assert math.frexp(found)[0] == 0.5
        assert found == largest(dtype) or factor * amax <= found < 2 * factor * amax
        assert found <= greatest(dtype)
    assert (level(0.0, dtype, "A", None), level(0.0, dtype, "B", None)) == (4.0, 16.0)
    assert level(greatest(dtype), dtype, "A", None) == largest(dtype)


def largest(dtype: SourceDtype) -> float:
    """The greatest power of two of a dtype."""
    return 2.0**15 if dtype == "fp16" else 2.0**127


@given(SIZES, DTYPES, SIZES, SIZES)
def test_a_given_scale_bounds_the_level(amax: float, dtype: SourceDtype, ceiling: float, floor: float) -> None:
    """Below the ceiling always; at or above twice the floor unless ceiling or dtype forbid it."""
    limit = min(largest(dtype), 2.0 ** math.floor(math.log2(0.98 * ceiling)))
    for letter in ("A", "B"):
        found = level(amax, dtype, "A" if letter == "A" else "B", ceiling, floor)
        assert min(limit, max(2 * floor, 4 * amax)) <= found <= limit
    assert stands_out(amax, dtype, ceiling, floor) == (limit / 2 >= floor)


@pytest.mark.parametrize(
    ("dtype", "amax", "seen"), [("fp16", 16383.0, True), ("fp16", 16384.0, False), ("bf16", 1.0, True)]
)
def test_poison_that_cannot_exceed_the_amax_is_not_seen(dtype: SourceDtype, amax: float, seen: bool) -> None:
    """All of it must: half the clipped level is the least that may be drawn."""
    assert can_be_seen(amax, dtype, None) == seen
    assert can_be_seen(amax, dtype, 448.0)


@given(DTYPES, st.integers(-20, 15), st.integers(0, 5))
def test_poison_lies_between_half_its_level_and_its_level(dtype: SourceDtype, exponent: int, seed: int) -> None:
    """Of either sign, and random throughout."""
    top = 2.0**exponent
    values = to_float32(poison(("A", 1, seed), 500, top, dtype), dtype).astype(np.float64)
    assert np.abs(values).min() >= top / 2
    assert np.abs(values).max() < top or dtype == "fp16"  # its subnormals round up to it
    assert np.abs(values).max() <= top
    assert np.abs(values).max() > 0.7 * top
    assert 100 < (values < 0).sum() < 400
    other = to_float32(poison(("B", 1, seed), 500, top, dtype), dtype)
    assert (values != other).sum() > 250


def test_nan_poison_is_nan_in_about_every_second_value() -> None:
    """A maximum ignores it; a sum does not. The other values stay."""
    bits = poison(("A", 0), 1000, 1.0, "bf16")
    mixed = with_nan(("A", 0), bits, "bf16")
    nan = np.isnan(to_float32(mixed, "bf16"))
    assert 400 < nan.sum() < 600
    assert np.array_equal(mixed[~nan], bits[~nan])


@given(DTYPES, st.floats(2.0**-10, 2.0**10))
def test_ordinary_data_is_no_larger_than_the_tensors(dtype: SourceDtype, top: float) -> None:
    """Below the amax on either side and not far below, the same in every launch."""
    bits = ordinary((0, 1), 2000, top, dtype)
    values = to_float32(bits, dtype)
    assert 0.2 * top < np.abs(values).max() <= top
    assert 800 < (values < 0).sum() < 1200
    assert np.array_equal(bits, ordinary((0, 1), 2000, top, dtype))
