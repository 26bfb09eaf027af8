"""Storage bits against numpy's own casts and ml_dtypes: every code, ties, and random values."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.draw.dtypes import (
    SourceDtype,
    from_float32,
    from_float64,
    greatest,
    infinity_bits,
    nan_bits,
    sign_bit,
    to_float32,
)

OTHERS = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "fp32": np.float32}
DTYPES = st.sampled_from(["bf16", "fp16", "fp32"])


def _codes(dtype: SourceDtype) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
    """Return every code, of fp32 those of whole multiples of 2^16 and their neighbours."""
    every = np.arange(1 << 16, dtype=np.uint32)
    return (np.concatenate([(every << 16) + low for low in (0, 1, 0xFFFF)]) if dtype == "fp32" else every).astype(
        np.uint32 if dtype == "fp32" else np.uint16
    )


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_every_code_decodes_as_elsewhere(dtype: SourceDtype) -> None:
    """Decoding is exact: every code is the value that another library gives it."""
    codes = _codes(dtype)
    there = codes.view(OTHERS[dtype]).astype(np.float32)
    here = to_float32(codes, dtype)
    assert here.dtype == np.float32
    np.testing.assert_array_equal(here, there)
    np.testing.assert_array_equal(np.signbit(here), np.signbit(there))


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_every_code_survives(dtype: SourceDtype) -> None:
    """Each value is encoded as its own code again; a NaN as the quiet one of its sign."""
    codes = _codes(dtype)
    values = to_float32(codes, dtype)
    again = from_float32(values, dtype)
    assert again.dtype == codes.dtype
    nan = np.isnan(values)
    np.testing.assert_array_equal(again[~nan], codes[~nan])
    np.testing.assert_array_equal(again[nan], nan_bits(dtype) | (codes[nan] & sign_bit(dtype)))


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_ties_go_to_even(dtype: SourceDtype) -> None:
    """Halfway between two codes the even one is taken; the least step beside it decides otherwise."""
    codes = _codes(dtype)[:-1].astype(np.int64)
    codes = codes[codes < infinity_bits(dtype) - 1]
    low = to_float32(codes.astype(np.uint32), dtype).astype(np.float64)
    high = to_float32((codes + 1).astype(np.uint32), dtype).astype(np.float64)
    middle = (low + high) / 2
    np.testing.assert_array_equal(from_float64(middle, dtype), codes + codes % 2)
    np.testing.assert_array_equal(from_float64(np.nextafter(middle, 0), dtype), codes)
    np.testing.assert_array_equal(from_float64(np.nextafter(middle, np.inf), dtype), codes + 1)
    np.testing.assert_array_equal(from_float64(-middle, dtype), (codes + codes % 2) | sign_bit(dtype))


@given(DTYPES, st.lists(st.floats(width=64), max_size=8))
def test_float64_rounds_as_elsewhere(dtype: SourceDtype, values: list[float]) -> None:
    """Any float64 goes where numpy's casts send it in one rounding; for bf16 where integers send it."""
    given_values = np.array(values, dtype=np.float64)
    here = to_float32(from_float64(given_values, dtype), dtype)
    with np.errstate(all="ignore"):
        if dtype == "bf16":  # ml_dtypes rounds float64 to float32 first: only what float32 holds can be compared
            given_values = given_values.astype(np.float32).astype(np.float64)
            here = to_float32(from_float64(given_values, dtype), dtype)
        there = given_values.astype(OTHERS[dtype]).astype(np.float32)
    np.testing.assert_array_equal(here, there)
    np.testing.assert_array_equal(np.signbit(here), np.signbit(there))


@given(DTYPES, st.lists(st.floats(width=32), max_size=8))
def test_float32_rounds_as_elsewhere(dtype: SourceDtype, values: list[float]) -> None:
    """Any float32 goes where another library sends it."""
    given_values = np.array(values, dtype=np.float32)
    with np.errstate(all="ignore"):
        there = given_values.astype(OTHERS[dtype]).astype(np.float32)
    np.testing.assert_array_equal(to_float32(from_float32(given_values, dtype), dtype), there)


def test_float64_is_rounded_once() -> None:
    """A value just above a bf16 tie, by less than float32 sees, still goes up."""
    value = 1 + 2.0**-8 + 2.0**-40
    assert from_float64(np.array([value, 1 + 2.0**-8]), "bf16").tolist() == [0x3F81, 0x3F80]


def test_edges_are_pinned() -> None:
    """Greatest values, infinities, and what rounds to them."""
    assert greatest("fp16") == 65504.0
    assert greatest("bf16") == (2 - 2.0**-7) * 2.0**127
    assert greatest("fp32") == (2 - 2.0**-23) * 2.0**127
    assert from_float64(np.array([65519.9, 65520.0, -1e300, math.inf]), "fp16").tolist() == [
        0x7BFF,
        0x7C00,
        0xFC00,
        0x7C00,
    ]
    assert from_float64(np.array([2.0**-25, 2.0**-24, -0.0, 5e-324]), "fp16").tolist() == [0, 1, 0x8000, 0]
    assert [nan_bits(dtype) for dtype in ("bf16", "fp16", "fp32")] == [0x7FC0, 0x7E00, 0x7FC00000]


def test_shapes_are_kept_beyond_a_chunk() -> None:
    """A tensor of many chunks, not contiguous, keeps its shape and order."""
    values = np.arange(2 * 300 * 301, dtype=np.float64).reshape(300, 602)[:, ::2]
    codes = from_float64(values, "fp32")
    assert codes.shape == values.shape
    np.testing.assert_array_equal(to_float32(codes, "fp32"), values)
    assert from_float64(np.zeros((0, 3)), "bf16").shape == (0, 3)
