"""Prefill: three streams that differ in every byte, any part of which can be drawn on its own."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.draw.prefill import _SMALL, prefill, prefill_at
from kvcheck.schema import Prefill

LETTERS: tuple[Prefill, ...] = ("A", "B", "C")
LETTER = st.sampled_from(LETTERS)


@given(st.integers(0, 9), st.integers(0, 1 << 40), st.integers(0, 1 << 30), st.integers(0, 3000))
def test_no_two_prefills_share_a_byte(allocation: int, seed: int, start: int, size: int) -> None:
    """So a byte that equals all three was never stored."""
    drawn = [prefill(allocation, seed, letter, start, start + size) for letter in LETTERS]
    assert all(each.dtype == np.uint8 and each.shape == (size,) for each in drawn)
    for one, other in combinations(drawn, 2):
        assert (one != other).all()


@given(LETTER, st.integers(0, 4000), st.integers(0, 4000))
def test_a_part_is_a_part_of_the_whole(letter: Prefill, start: int, stop: int) -> None:
    """Drawn alone or with its neighbours, a byte is the same."""
    start, stop = sorted((start, stop))
    assert np.array_equal(prefill(1, 7, letter, start, stop), prefill(1, 7, letter, 0, 4096)[start:stop])


@given(LETTER, st.lists(st.integers(0, 5000), max_size=30))
def test_bytes_at_offsets_are_those_of_the_stream(letter: Prefill, offsets: list[int]) -> None:
    """In the offsets' own order and shape, repeats included."""
    where = np.array(offsets, np.int64).reshape(1, -1)
    assert np.array_equal(prefill_at(0, 3, letter, where), prefill(0, 3, letter, 0, 5001)[where])


def test_prefill_looks_like_nothing() -> None:
    """Every byte value is about equally frequent in each; allocations and seeds have streams of their own."""
    for letter in LETTERS:
        counts = np.bincount(prefill(0, 0, letter, 0, 1 << 16), minlength=256)
        assert counts.min() > 150
        assert counts.max() < 400
        assert not np.array_equal(prefill(0, 0, letter, 0, 64), prefill(1, 0, letter, 0, 64))
        assert not np.array_equal(prefill(0, 0, letter, 0, 64), prefill(0, 1, letter, 0, 64))


@given(LETTER)
def test_what_is_kept_is_what_is_drawn(letter: Prefill) -> None:
    """A draw that is too large to keep has the bytes of those that are kept, and nobody can write to either."""
    large = prefill(1, 9, letter, 0, _SMALL + 1)
    small = [prefill(1, 9, letter, start, start + 4096) for start in range(0, _SMALL, 4096)]
    assert np.array_equal(np.concatenate(small), large[:_SMALL])
    if letter == "A":
        assert not large.flags.writeable
        assert not small[0].flags.writeable
