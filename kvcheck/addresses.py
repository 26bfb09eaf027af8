"""Where every element of a placed tensor lies: byte offsets into its allocation, and sets of such."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kvcheck.schema import ITEMSIZE, Placed

Offsets = npt.NDArray[np.int64]
Number = TypeVar("Number", np.int64, np.uint64)


def element_offsets(tensor: Placed) -> Offsets:
    """The byte offset of every element, shaped like the tensor."""
    item = ITEMSIZE[tensor.dtype]
    offsets = np.full((1,) * len(tensor.dims), tensor.offset, dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(tensor.dims, tensor.strides, strict=True)):
        shape = [1] * len(tensor.dims)
        shape[axis] = size
        offsets = offsets + (np.arange(size, dtype=np.int64) * (stride * item)).reshape(shape)
    return offsets


def row_offsets(tensor: Placed, slots: npt.NDArray[np.int64]) -> Offsets:
    """The byte offsets of the rows at `slots` of codes or scales: `[len(slots), heads(, dim)]`.

    `tensor` is in cache coordinates: dims `[pages, page, heads(, dim)]`. A slot is `page_index * page + in_page`.
    Raises IndexError for a slot that the tensor does not have.
    """
    pages, page = tensor.dims[:2]
    if len(slots) and (slots.min() < 0 or slots.max() >= pages * page):
        raise IndexError(f"{tensor.name}: slot outside 0..{pages * page - 1}")
    item = ITEMSIZE[tensor.dtype]
    base = tensor.offset + (slots // page) * (tensor.strides[0] * item) + (slots % page) * (tensor.strides[1] * item)
    offsets = base.reshape((-1,) + (1,) * (len(tensor.dims) - 2))
    for axis in range(2, len(tensor.dims)):
        shape = [1] * (len(tensor.dims) - 1)
        shape[axis - 1] = tensor.dims[axis]
        steps = np.arange(tensor.dims[axis], dtype=np.int64) * (tensor.strides[axis] * item)
        offsets = offsets + steps.reshape(shape)
    return offsets.astype(np.int64)


def byte_offsets(offsets: Offsets, item: int) -> Offsets:
    """The offset of every byte of elements of `item` bytes: one more axis, of length `item`."""
    return offsets[..., None] + np.arange(item, dtype=np.int64)


def extent(tensor: Placed) -> tuple[int, int]:
    """The first byte of a tensor and the one past its last, gaps between its rows included. Empty: (offset, offset)."""
    if 0 in tensor.dims:
        return tensor.offset, tensor.offset
    item = ITEMSIZE[tensor.dtype]
    last = sum((size - 1) * stride for size, stride in zip(tensor.dims, tensor.strides, strict=True))
    return tensor.offset, tensor.offset + (last + 1) * item


def layer_pitch(tensor: Placed) -> int:
    """How far the codes or scales of one layer lie from those of the next, in elements: all pages of one."""
    return tensor.dims[0] * tensor.strides[0]


def distinct(values: Offsets) -> Offsets:
    """The values that occur, ascending. Sorts: numpy's own way hashes, and offsets that lie close together collide."""
    ascending = np.sort(values, axis=None)
    first = np.ones(len(ascending), np.bool_)
    first[1:] = ascending[1:] != ascending[:-1]
    return ascending[first]


def among(values: npt.NDArray[Number], ascending: npt.NDArray[Number]) -> npt.NDArray[np.bool_]:
    """Which values, in their shape, are among `ascending` ones."""
    if not len(ascending):
        return np.zeros(values.shape, np.bool_)
    found: npt.NDArray[np.bool_] = (
        ascending[np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)] == values
    )
    return found
