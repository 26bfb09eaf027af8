"""Maps within a page or a row that no strides give: rows that are split, turned or begin with a vector, other pages."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from kvcheck.addresses import Offsets
from kvcheck.diagnose.destination import Destination
from kvcheck.diagnose.facts import Indices
from kvcheck.diagnose.part import Part

#: Elements that a cache is split by, along a head's.
SPLITS = (16, 8)
#: Blocks whose scales may share one place.
TOGETHER = (2, 4)
#: Rows that a page is usually said to have.
PAGES = tuple(1 << bit for bit in range(10))
#: Bytes of a vector that rows may be taken to begin with.
VECTORS = (16, 8, 4)


def within_pages(part: Part, fault: str) -> Iterator[Destination]:
    """Those of a part; `fault` names those that arrange it otherwise."""
    placed = part.placed
    page, heads = placed.dims[1:3]
    for rows in dict.fromkeys((*PAGES, heads)):
        if rows != page > 1:
            used = msgspec.structs.replace(placed, dims=(placed.dims[0], rows, *placed.dims[2:]))
            words = f"written as in pages of {rows} row{'s' * (rows > 1)}; declared {page}"
            yield Destination(fault, part.at(used), 2, words, {"page_used": rows, "page_declared": page})
    if page > 1:
        slots = part.side.rows.slots
        edge = fault if part.kind == "scales" else "page-boundary"
        for row, what in ((slots % page, "(slot % page)"), (slots, "slot")):
            words = f"written at row {what} % {page - 1} of their pages, which have {page} rows"
            yield Destination(edge, part.at(placed, slots // page * page + row % (page - 1)), 4, words, {})
    if part.kind == "scales":
        yield from _together(part)
    if part.kind == "codes":
        yield from _turned(part)
        yield from _at_vectors(part)


def _together(part: Part) -> Iterator[Destination]:
    """Scales of several blocks of a row at one place, as where blocks were larger: the last of them stays."""
    heads, blocks = part.placed.dims[2], part.due_at.shape[1] // max(part.placed.dims[2], 1)
    unit = np.arange(heads * blocks)
    for count in TOGETHER:
        if blocks > count - 1:
            block = unit % blocks
            words = f"written {count} blocks to one place, block b at b // {count}, where one of them stays"
            at = part.due_at[:, unit - block + block // count]
            yield Destination("scale-layout", at, 2, words, {"blocks_together": count})


def _turned(part: Part) -> Iterator[Destination]:
    """Codes with rows innermost in a page, and codes split along the head's elements."""
    _, page, heads, dim = part.placed.dims
    slots = part.side.rows.slots[:, None, None]
    head, lane = np.arange(heads)[:, None], np.arange(dim)
    number, row = slots // page, slots % page
    begin = part.placed.offset + number * part.placed.strides[0]
    if page > 1:
        for pitch in dict.fromkeys((part.placed.strides[2], dim * page)):
            if pitch >= dim * page:
                words = f"written as in [heads, dim, rows] within a page, rows innermost, head stride {pitch}"
                yield _inside(part, begin + head * pitch + lane * page + row, words)
    for split in SPLITS:
        if dim % split:
            continue
        group, rest = lane // split, lane % split
        if page > 1:
            within = ((head * (dim // split) + group) * page + row) * split + rest
            yield _inside(part, begin + within, f"written as in [heads, dim / {split}, rows, {split}] within a page")
        if heads > 1:
            within = row * part.placed.strides[1] + (group * heads + head) * split + rest
            yield _inside(part, begin + within, f"written as in [dim / {split}, heads, {split}] within a row")


def _inside(part: Part, at: Indices, words: str) -> Destination:
    return Destination("cache-layout", np.ascontiguousarray(np.broadcast_to(at, part.due_at.shape)), 2, words, {})


def _at_vectors(part: Part) -> Iterator[Destination]:
    """Each head from the vector on that it begins in: by its offset in the tensor, or in its row."""
    row = part.due_at[:, :1, :1] - part.placed.offset
    begin: Offsets = part.due_at[:, :, :1] - part.placed.offset
    for size in VECTORS:
        for lost, where in ((begin % size, "offset"), ((begin - row) % size, "offset in its row")):
            words = f"written in vectors of {size} bytes, each head's {where} rounded down to one"
            yield Destination("misaligned", part.due_at - lost, 2, words, {"vector_bytes": size})
