"""What a load finds: every code there is, scales of every mantissa, one row for tokens that share a slot."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.draw.load import row_codes, row_scales
from kvcheck.schema import Tensor


@given(st.integers(0, 9), st.integers(1, 5), st.integers(1, 70), st.integers(0, 3))
def test_every_256_codes_are_all_bytes(tokens: int, heads: int, dim: int, seed: int) -> None:
    """In the order of (token, head, dim), whatever the shape."""
    codes = row_codes("k", np.arange(tokens, dtype=np.int64), heads, dim, seed)
    assert codes.dtype == np.uint8
    assert codes.shape == (tokens, heads, dim)
    flat = codes.reshape(-1)
    for start in range(0, flat.size - 255, 256):
        assert set(flat[start : start + 256].tolist()) == set(range(256))
    assert len(set(flat.tolist())) == flat.size or flat.size > 256


def test_k_v_and_seeds_have_codes_and_scales_of_their_own() -> None:
    """A swap would show."""
    ids = np.arange(4, dtype=np.int64)
    streams: tuple[tuple[Tensor, int], ...] = (("k", 0), ("v", 0), ("k", 1))
    drawn = [row_codes(role, ids, 2, 64, seed) for role, seed in streams]
    scaled = [row_scales(role, ids, 2, seed) for role, seed in streams]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (drawn[one] != drawn[other]).mean() > 0.9
        assert (scaled[one] != scaled[other]).all()


def test_tokens_that_share_a_slot_share_its_row() -> None:
    """The first token's, for codes and for scales; where slots lie does not matter."""
    ids = np.array([7, 3, 7, 9, 3], np.int64)
    codes, scales = row_codes("k", ids, 2, 16, 0), row_scales("k", ids, 2, 0)
    assert np.array_equal(codes[0], codes[2])
    assert np.array_equal(codes[1], codes[4])
    assert np.array_equal(scales[1], scales[4])
    alone = row_codes("k", np.arange(5, dtype=np.int64), 2, 16, 0)
    assert np.array_equal(codes[[0, 1, 3]], alone[[0, 1, 3]])


def test_scales_fill_their_range() -> None:
    """From 2^-10 to below 2^4, every exponent, random mantissas."""
    scales = row_scales("v", np.arange(500, dtype=np.int64), 3, 0)
    assert scales.dtype == np.float32
    assert scales.shape == (500, 3)
    assert scales.min() >= 2.0**-10
    assert scales.max() < 2.0**4
    _, exponents = np.frexp(scales)
    assert set(np.unique(exponents).tolist()) == set(range(-9, 5))
    mantissas = scales.view(np.uint32) & 0x7FFFFF
    assert len(np.unique(mantissas)) == scales.size
