"""Real memory: what is uploaded is what is there, and what is downloaded is a copy."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
import torch

from kvcheck.contract import Computed, Contract, Form
from kvcheck.memory.arena import TORCH_DTYPES, Memory
from kvcheck.schema import ITEMSIZE, Case

from .scenes import Scene

CPU = torch.device("cpu")
SCENE = Scene(Case(layout="exact", tokens=2), Contract(scale=Computed()), Form())


def test_bytes_go_up_and_come_down() -> None:
    """Every byte of every allocation, unchanged; a download is no view."""
    placement = SCENE.place()
    memory = Memory(placement, CPU)
    images = tuple(np.random.default_rng(size).integers(0, 256, size, np.uint8) for size in placement.allocations)
    memory.upload(images)
    first = memory.download()
    assert all(np.array_equal(was, now) for was, now in zip(images, first, strict=True))
    memory.upload(tuple(np.zeros_like(image) for image in images))
    assert all(np.array_equal(was, now) for was, now in zip(images, first, strict=True))


def test_a_tensor_is_a_view_of_its_placed_bytes() -> None:
    """Shape, strides, dtype and address are those of the placement."""
    placement = SCENE.place()
    memory = Memory(placement, CPU)
    for placed in placement.tensors:
        view = memory.tensor(placed)
        assert (tuple(view.shape), view.stride()) == (placed.dims, placed.strides)
        assert (view.dtype, view.element_size()) == (TORCH_DTYPES[placed.dtype], ITEMSIZE[placed.dtype])
        assert view.data_ptr() == memory.span()[placed.allocation][0] + placed.offset


def test_a_view_may_have_another_dtype_and_offset() -> None:
    """Bytes from an offset of the allocation's own."""
    placement = SCENE.place()
    memory = Memory(placement, CPU)
    k = placement.get("k")
    view = memory.strided(k, (4,), (1,), dtype="uint8", offset=k.offset + 3)
    assert (view.dtype, view.data_ptr()) == (torch.uint8, memory.tensor(k).data_ptr() + 3)


def test_addresses_are_relative_to_the_lowest() -> None:
    """As many as allocations, and the spans are as long as they."""
    placement = SCENE.place()
    memory = Memory(placement, CPU)
    assert min(memory.addresses()) == 0
    lengths = [stop - start for start, stop in memory.span()]
    assert lengths == list(placement.allocations)
    base = min(start for start, _ in memory.span())
    assert [start - base for start, _ in memory.span()] == list(memory.addresses())


@pytest.mark.parametrize("layout", ["exact", "fence", "fence-before"])
def test_what_is_mapped_around_an_allocation_ends_at_its_fence(layout: str) -> None:
    """Pages, less than one more than the allocation has; nothing is said of a layout without fences."""
    placement = Scene(Case(layout=layout, tokens=2), Contract(scale=Computed()), Form()).place()
    memory = Memory(placement, CPU)
    if layout == "exact":
        assert memory.mapped() == ()
        return
    for size, base, (begin, end) in zip(placement.allocations, memory.addresses(), memory.mapped(), strict=True):
        assert base == begin if layout == "fence-before" else base + size == end
        assert (end - begin) % mmap.PAGESIZE == 0
        assert size <= end - begin < size + mmap.PAGESIZE


def test_where_some_allocations_alone_have_a_fence_the_others_have_room() -> None:
    """Much is mapped on either side of them."""
    placement = Scene(Case(layout="fence", tokens=2), Contract(scale=Computed()), Form()).place()
    memory = Memory(placement, CPU, (0,))
    spans = [end - begin for begin, end in memory.mapped()]
    assert spans[0] < 1 << 20
    assert min(spans[1:]) > 1 << 26
