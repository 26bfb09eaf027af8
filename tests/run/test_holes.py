"""Holes in a process's memory are filled: what it allocates next lies in a row."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.run import holes
from kvcheck.run.holes import fill_holes, filled


def _given(addresses: Iterator[int | None]) -> holes.Allocate:
    return lambda _: next(addresses)


@given(st.lists(st.integers(1, 1 << 40), max_size=20), st.integers(1, 8), st.integers(0, 16))
def test_it_goes_on_until_so_many_came_in_a_row(before: list[int], row: int, between: int) -> None:
    """Whatever holes there are, and however far apart the allocator puts what follows."""
    size, far = 32, 1 << 50
    behind = [far + n * (size + between) for n in range(row + 1)]
    came = [address * 4096 for address in before] + behind
    taken = filled(_given(iter(came)), size, 16, row)
    assert taken == size * len(came)


def test_what_lies_too_far_apart_or_before_is_not_in_a_row() -> None:
    """Nor is the same place again; a row that is broken begins anew."""
    came = [100, 133, 101, 69, 69, 200, 216, 232, 9999]
    assert filled(_given(iter(came)), 16, 0, 2) == 16 * 8


def test_no_memory_and_endless_holes_end_it() -> None:
    """It is no more than speed."""
    assert filled(_given(iter([4096, None, 4112])), 16, 0, 5) == 16
    apart = iter(range(0x1000, 1 << 40, 0x1000))
    assert filled(_given(apart), 512, 64, 2) == holes._MOST


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="other interpreters lay objects out otherwise")
def test_what_is_allocated_next_lies_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though every other block of four pools was free before."""
    monkeypatch.setattr(holes, "_HELD", [])
    size = 208
    held = [bytes(size - holes._HEAD) for _ in range(4 * holes._POOL // size)]
    del held[::2]
    taken = fill_holes()
    assert 0 < taken < 32 << 20
    assert sum(each.__sizeof__() for each in holes._HELD) < taken
    blocks = [bytes(size - holes._HEAD) for _ in range(24)]
    places = [id(block) for block in blocks]
    near = sum(other - place == size for place, other in pairwise(places))
    assert near >= 20
    assert len(held) > 0
