"""Pointers that carry their argument's number, and what an argument may reach."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.sanitizer.shadow.pointers import MOST, View, allowed, argument, split, tagged
from kvcheck.sanitizer.shadow.segments import NOBODY, segments
from kvcheck.schema import Placed, Placement

FAR = 1 << 51


@given(st.integers(0, (1 << 47) - 1), st.integers(1, MOST), st.integers(-FAR, FAR))
def test_number_survives_arithmetic(address: int, number: int, offset: int) -> None:
    """Whatever is added, within 2^51 either way, the number and the address are found again."""
    moved = np.array([tagged(address, number) + offset], dtype=np.uint64)
    numbers, addresses = split(moved, MOST)
    assert (numbers.tolist(), addresses.tolist()) == ([number], [address + offset])


@given(st.integers(0, (1 << 47) - 1))
def test_plain_address_has_no_number(address: int) -> None:
    """An address that no argument's number is on stays what it is."""
    numbers, addresses = split(np.array([address], dtype=np.uint64), MOST)
    assert (numbers.tolist(), addresses.tolist()) == ([0], [address])


def test_numbers_beyond_the_arguments() -> None:
    """A number that no argument has, or an address too far to be believed, is none: the pointer was made of garbage."""
    garbage = np.array([tagged(1 << 40, 9), tagged(1 << 40, 2) + (1 << 54)], dtype=np.uint64)
    numbers, addresses = split(garbage, 8)
    assert numbers.tolist() == [0, 0]
    assert addresses.tolist() == garbage.astype(np.int64).tolist()


def test_too_many_arguments() -> None:
    """More tensors than numbers is said, not wrapped."""
    tagged(0, MOST)
    with pytest.raises(ValueError, match=f"expected {MOST} or fewer"):
        tagged(0, MOST + 1)


#: K and V side by side in one tensor, then codes of both, then a list. Base 4096.
TENSORS = (
    Placed("k", 0, 0, "uint8", (2, 1, 8), (16, 8, 1)),
    Placed("v", 0, 8, "uint8", (2, 1, 8), (16, 8, 1)),
    Placed("k_codes", 0, 64, "uint8", (4, 1, 1, 8), (16, 16, 8, 1)),
    Placed("v_codes", 0, 72, "uint8", (4, 1, 1, 8), (16, 16, 8, 1)),
)
BASE = 4096
MAP = segments(
    Placement("arena", (256,), TENSORS, (), 4, independence=False),
    (BASE,),
    {"k_codes": np.array([1]), "v_codes": np.array([1])},
)
OURS = ((BASE, BASE + 256),)


def view(offset: int, dims: tuple[int, ...], strides: tuple[int, ...], name: str = "it") -> View:
    """A view of bytes, `offset` into the allocation."""
    return View(name, BASE + offset, dims, strides, 1, (BASE, BASE + 256))


@pytest.mark.parametrize(
    ("seen", "owner", "covers"),
    [
        (view(0, (2, 1, 8), (16, 8, 1)), 0, {0}),  # K
        (view(8, (2, 1, 8), (16, 8, 1)), 1, {1}),  # V
        (view(0, (2, 2, 8), (16, 8, 1)), 0, {0, 1}),  # both as one
        (view(0, (32,), (1,)), 0, {0, 1}),  # the memory of both
        (view(4, (2,), (1,)), 0, {0}),  # a part
        (view(64, (4, 2, 8), (16, 8, 1)), 2, {2, 3}),  # a fused cache
        (view(40, (8,), (1,)), NOBODY, set()),  # between the tensors
        (view(60, (8,), (1,)), 2, {2}),  # begins before the codes
        (view(0, (0, 8), (8, 1)), NOBODY, set()),  # empty
        (view(16, (3, 8), (0, 1)), 0, {0}),  # one row, repeated
        (view(255, (1,), (1,)), NOBODY, set()),  # the last byte of all
    ],
)  # fmt: skip
def test_argument_covers(seen: View, owner: int, covers: set[int]) -> None:
    """The tensors whose elements a view has."""
    found = argument(seen, MAP, OURS)
    assert (found.owner, found.covers, found.own) == (owner, frozenset(covers), None)


def test_argument_of_own_memory() -> None:
    """A tensor outside kvcheck's allocations is the target's own, as far as its storage goes."""
    found = argument(View("own", 10, (4,), (1,), 4, (8, 40)), MAP, OURS)
    assert (found.owner, found.covers, found.own) == (NOBODY, frozenset(), (8, 40))


def test_allowed() -> None:
    """Its own tensor; those that lie together with it, unless the launch has a pointer of their own."""
    k, v = (argument(view(offset, (2, 1, 8), (16, 8, 1)), MAP, OURS) for offset in (0, 8))
    together = (frozenset({0, 1}),)
    assert allowed(k, (k, v), (), 4).tolist() == [True, False, False, False, False]
    assert allowed(k, (k,), together, 4).tolist() == [True, True, False, False, False]
    assert allowed(k, (k, v), together, 4).tolist() == [True, False, False, False, False]
