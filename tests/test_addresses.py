"""Addresses: the byte of every element, against a loop over its index."""  # noqa: INP001 - each folder of tests is a package of its own

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.addresses import among, byte_offsets, distinct, element_offsets, extent, row_offsets
from kvcheck.schema import ITEMSIZE, Dtype, Placed

DTYPES: st.SearchStrategy[Dtype] = st.sampled_from(sorted(ITEMSIZE))


@st.composite
def tensors(draw: st.DrawFn, least: int = 1) -> Placed:
    """A tensor of any rank, dtype and strides; axes may be empty, strides may be 0."""
    rank = draw(st.integers(least, 4))
    dims = tuple(draw(st.integers(0, 4)) for _ in range(rank))
    strides = tuple(draw(st.integers(0, 50)) for _ in range(rank))
    return Placed("x", 0, draw(st.integers(0, 1000)), draw(DTYPES), dims, strides)


def by_hand(tensor: Placed, index: tuple[int, ...]) -> int:
    """One element's byte."""
    elements = sum(position * stride for position, stride in zip(index, tensor.strides, strict=True))
    return tensor.offset + elements * ITEMSIZE[tensor.dtype]


@given(tensors())
def test_every_element_has_its_address(tensor: Placed) -> None:
    """Offset plus strides in elements times their size."""
    found = element_offsets(tensor)
    assert found.dtype == np.int64
    assert found.shape == tensor.dims
    for index in product(*map(range, tensor.dims)):
        assert found[index] == by_hand(tensor, index)


@given(tensors(2), st.data())
def test_rows_are_those_of_page_and_row_in_page(tensor: Placed, data: st.DataObject) -> None:
    """Slot s is row s % page of page s // page, in the order of the slots, repeats included."""
    pages, page = tensor.dims[:2]
    slots = data.draw(st.lists(st.integers(0, max(pages * page - 1, 0)), max_size=6)) if pages * page else []
    found = row_offsets(tensor, np.array(slots, np.int64))
    assert found.dtype == np.int64
    whole = element_offsets(tensor).reshape(pages * page, *tensor.dims[2:]) if pages * page else None
    assert found.shape == (len(slots), *tensor.dims[2:])
    if whole is not None:
        assert np.array_equal(found, whole[slots])


@pytest.mark.parametrize("slot", [-1, 12, 1 << 40])
def test_slots_outside_are_refused(slot: int) -> None:
    """Not wrapped, not clipped."""
    tensor = Placed("k_codes", 0, 0, "uint8", (3, 4, 2), (100, 10, 1))
    with pytest.raises(IndexError, match=r"k_codes: slot outside 0\.\.11"):
        row_offsets(tensor, np.array([0, slot]))


@given(tensors(), st.sampled_from([1, 2, 4, 8]))
def test_bytes_follow_their_element(tensor: Placed, item: int) -> None:
    """One more axis, ascending by one."""
    offsets = element_offsets(tensor)
    found = byte_offsets(offsets, item)
    assert found.shape == (*tensor.dims, item)
    assert (found == offsets[..., None] + np.arange(item)).all()


@given(tensors())
def test_an_extent_is_from_the_first_byte_to_past_the_last(tensor: Placed) -> None:
    """Empty tensors have none."""
    start, stop = extent(tensor)
    everything = byte_offsets(element_offsets(tensor), ITEMSIZE[tensor.dtype])
    if everything.size:
        assert (start, stop) == (everything.min(), everything.max() + 1)
    else:
        assert (start, stop) == (tensor.offset, tensor.offset)


def test_offsets_beyond_32_bits_are_exact() -> None:
    """A cache of more than 2^31 elements."""
    tensor = Placed("k_codes", 0, 7, "fp32", (3, 1, 2), (1 << 31, 5, 1))
    assert row_offsets(tensor, np.array([2])).tolist() == [[7 + (1 << 34), 11 + (1 << 34)]]
    assert extent(tensor) == (7, (1 << 34) + 15)


@given(st.lists(st.integers(-(1 << 50), 1 << 50) | st.integers(0, 9), max_size=20), st.lists(st.integers(0, 9)))
def test_sets_of_positions_are_sets(one: list[int], other: list[int]) -> None:
    """Each value once, ascending; and whether a value is in another set."""
    values = distinct(np.array(one, np.int64).reshape(-1, 1))
    assert values.tolist() == sorted(set(one))
    found = among(np.array([other], np.int64), values)
    assert found.shape == (1, len(other))
    assert found[0].tolist() == [each in one for each in other]
