"""Holes among what a nursery has loaded, filled: what a child allocates then lies together, on pages of its own.

Imports leave thousands of holes behind, the more since nothing is collected while they run. A child that puts something
into one copies the page with all that lies around it, and copies another for the next: a small case copied five hundred
pages more. Nothing that is put in here is ever looked at. Which hole an allocator takes is its own affair: this is no
more than speed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TypeAlias

#: Bytes of CPython's small blocks, of what it takes them from at a time less its head, and of the head of a `bytes`.
_BLOCKS, _POOL, _HEAD = range(48, 513, 16), (16 << 10) - 64, b"".__sizeof__()
#: Sizes that are asked of the C library: large ones first, since small ones would cut large holes to pieces.
_CHUNKS = (*range(64 << 10, 8 << 10, -4 << 10), *range(8 << 10, 512, -256), *range(504, 16, -16))
#: Chunks in a row that come from where nothing has been, and the bytes between two of them at most.
_ROW, _BETWEEN = 4, 64
#: Bytes that are put into holes of one size at most.
_MOST = 4 << 20

#: Gives the address of so many bytes, None where there is no memory.
Allocate: TypeAlias = Callable[[int], "int | None"]

#: What lies in the holes.
_HELD: list[bytes] = []


def fill_holes() -> int:
    """Fill them, for as long as this process lives. Returns the bytes that it took, some MB. Nothing is imported."""
    malloc = ctypes.CDLL(None).malloc
    malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    blocks = sum(filled(_block, size, 0, _POOL // size - 1) for size in _BLOCKS)
    return blocks + sum(filled(malloc, size, _BETWEEN, _ROW) for size in _CHUNKS)


def filled(allocate: Allocate, size: int, between: int, row: int) -> int:
    """Allocate `size` bytes again and again, until `row` in a row follow each other `between` bytes apart at most.

    Returns the bytes that it took.
    """
    taken, last, run = 0, 0, 0
    while run < row and taken < _MOST and (address := allocate(size)):
        run = run + 1 if 0 <= address - last - size <= between else 0
        last, taken = address, taken + size
    return taken


def _block(size: int) -> int:
    """The address of a block of CPython's."""
    _HELD.append(bytes(size - _HEAD))
    return id(_HELD[-1])
