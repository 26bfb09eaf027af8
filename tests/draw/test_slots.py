"""Slots: every kind's own promise, for any size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.draw.slots import ACCEPTED, check, slot_count, slot_ids, unaddressed

KINDS = ACCEPTED.split(", ")
TOKENS, PAGES, SEEDS = st.integers(0, 70), st.sampled_from([1, 2, 3, 8, 16, 784]), st.integers(0, 5)


@given(st.sampled_from(KINDS), TOKENS, PAGES, SEEDS)
def test_slots_are_distinct_and_in_the_cache(kind: str, tokens: int, page: int, seed: int) -> None:
    """No slot lies outside, or is taken twice but by `duplicates`; rows stay free; what is free is just the rest."""
    slots = slot_count(tokens, page)
    assert slots % page == 0
    assert slots >= 2 * tokens + 8
    ids = slot_ids(kind, tokens, slots, page, seed)
    assert ids.dtype == np.int64
    assert ids.shape == (tokens,)
    taken = ids[ids >= 0].tolist()
    assert len(set(taken)) == ((tokens + 1) // 2 if kind == "duplicates" else len(taken))
    assert all(slot < slots for slot in taken)
    assert set(ids[ids < 0].tolist()) <= {-1}
    free = unaddressed(ids, slots)
    assert free.dtype == np.int64
    assert len(free) > 0
    assert free.tolist() == sorted(set(range(slots)) - set(taken))
    assert ids.tolist() == slot_ids(kind, tokens, slots, page, seed).tolist()


@given(TOKENS, PAGES)
def test_ascending_is_never_the_tokens_index(tokens: int, page: int) -> None:
    """Consecutive slots from 3."""
    assert slot_ids("ascending", tokens, slot_count(tokens, page), page, 0).tolist() == list(range(3, 3 + tokens))


@given(TOKENS, PAGES, SEEDS)
def test_negative_mixed_has_both(tokens: int, page: int, seed: int) -> None:
    """At least one slot is -1, and of two tokens at least one is not."""
    ids = slot_ids("negative_mixed", tokens, slot_count(tokens, page), page, seed)
    assert (ids == -1).sum() >= min(tokens, 1)
    assert (ids >= 0).sum() >= min(tokens - 1, 1)


def test_negative_mixed_is_about_a_third() -> None:
    """Of many tokens about a third are not stored."""
    ids = slot_ids("negative_mixed", 3000, slot_count(3000, 16), 16, 0)
    assert 850 < (ids == -1).sum() < 1150


@given(TOKENS, PAGES, SEEDS)
def test_duplicates_are_shared_by_two(tokens: int, page: int, seed: int) -> None:
    """Every slot has two tokens; of an odd count one has one."""
    ids = slot_ids("duplicates", tokens, slot_count(tokens, page), page, seed)
    _, counts = np.unique(ids, return_counts=True)
    assert sorted(counts.tolist()) == [1] * (tokens % 2) + [2] * (tokens // 2)


def test_all_negative_and_last() -> None:
    """All are -1; the last slots come first."""
    assert slot_ids("all_negative", 3, 16, 16, 0).tolist() == [-1, -1, -1]
    assert slot_ids("last", 3, 16, 16, 0).tolist() == [15, 14, 13]


def test_page_edges_pair_the_rows_around_a_boundary() -> None:
    """Last row, then first of the next page; the cache's own ends after the boundaries; then one row inward."""
    assert slot_ids("page_edges", 12, 32, 8, 0).tolist() == [7, 8, 15, 16, 23, 24, 31, 0, 6, 9, 14, 17]
    assert slot_ids("page_edges", 6, 15, 3, 0).tolist() == [2, 3, 5, 6, 8, 9]
    assert slot_ids("page_edges", 12, 15, 3, 0).tolist() == [2, 3, 5, 6, 8, 9, 11, 12, 14, 0, 1, 4]
    assert slot_ids("page_edges", 3, 16, 1, 0).tolist() == [3, 4, 5]


@given(PAGES.filter(lambda page: page > 2), st.integers(1, 9))
def test_page_edges_reach_each_row_once(page: int, pages: int) -> None:
    """Every row of the cache has one place in the order, whatever the page; rows in the middle come last."""
    slots = page * (pages + 1)
    ids = slot_ids("page_edges", slots - 3, slots, page, 0)
    assert len(set(ids.tolist())) == slots - 3
    depth = np.minimum(ids % page, page - 1 - ids % page)
    assert (np.diff(depth) >= 0).all()


def test_drawn_slots_are_pinned() -> None:
    """The permutation is the same on every machine, and another for another seed."""
    assert slot_ids("permuted", 8, 32, 16, 0).tolist() == [7, 20, 22, 31, 12, 28, 13, 16]
    assert slot_ids("permuted", 8, 32, 16, 1).tolist() == [21, 19, 29, 10, 1, 7, 9, 8]
    assert slot_ids("negative_mixed", 8, 32, 16, 0).tolist() == [-1, 20, 22, 31, 12, 28, -1, 16]
    assert slot_ids("duplicates", 8, 32, 16, 0).tolist() == [18, 18, 12, 21, 15, 21, 12, 15]


def test_what_cannot_be_drawn_is_refused() -> None:
    """An unknown kind, and a cache too small."""
    assert check("permuted") is None
    assert check("permutted") == "'permutted' is not a kind of slots"
    with pytest.raises(ValueError, match="'permutted' is not a kind of slots; accepted: ascending, "):
        slot_ids("permutted", 1, 16, 16, 0)
    with pytest.raises(ValueError, match="14 tokens do not fit in 16 slots"):
        slot_ids("last", 14, 16, 16, 0)
