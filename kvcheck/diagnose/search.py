"""Finding where rows stand: the bytes of right rows, looked up among all bytes that a launch wrote."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvcheck.addresses import byte_offsets, distinct
from kvcheck.diagnose.facts import Bytes, Facts, Indices, Mask
from kvcheck.diagnose.final import final
from kvcheck.diagnose.part import Part
from kvcheck.diagnose.side import Rows
from kvcheck.emission import scale_values
from kvcheck.schema import Placed

#: Bytes of a row that are looked up at once, and how many such parts of a row are tried.
WIDTH = 8
PARTS = 4
#: Places that are tried for one part of a row: more of them come from rows that repeat themselves.
PLACES = 4


def find_units(part: Part) -> Indices:
    """The byte offset at which each unit of a part stands after launch 1: `[n, units]`, or -1 where it is not found."""
    if part.kind == "codes":
        return find_rows(part.facts, part.side.rows, part.placed)
    return _find_scales(part)


def find_rows(facts: Facts, rows: Rows, placed: Placed) -> Indices:
    """The byte offset at which each (token, head) row's codes stand together after launch 1: `[n, heads]`, or -1.

    Looked for wherever the launch wrote in the allocation of `placed`; where a row stands twice, the place farther on
    is taken. A row stands where every code is one that the contract allows it. Rows shorter than `WIDTH`, and rows
    whose codes repeat themselves, are not found.
    """
    memory = final(facts)
    after, before = memory.after[placed.allocation], memory.before[placed.allocation]
    shape = rows.due.codes.shape
    where = np.full(shape[:2], -1, np.int64)
    if shape[2] < WIDTH or not len(rows.tokens) or len(after) < WIDTH:
        return where
    windows = np.lib.stride_tricks.sliding_window_view(after, WIDTH)
    written = after != before
    # A window may begin with a byte that happens to be the prefill's: a begin up to two bytes before also counts.
    begin = written.copy()
    begin[:-1] |= written[1:]
    begin[:-2] |= written[2:]
    begins = np.flatnonzero(begin[: len(windows)])
    words = _words(windows[begins])
    order = np.argsort(words, kind="stable")
    sorted_words, begins = words[order], begins[order]
    for start in range(0, min(shape[2] - WIDTH + 1, PARTS * WIDTH), WIDTH):
        needles = rows.due.codes[:, :, start : start + WIDTH]
        varied = (needles != needles[:, :, :1]).any(axis=2)
        wanted = _words(needles)
        first = np.searchsorted(sorted_words, wanted)
        last = np.searchsorted(sorted_words, wanted, side="right")
        for step in range(PLACES):
            index = first + step
            open_rows = (where < 0) & varied & (index < last)
            if not open_rows.any():
                break
            tried = np.where(open_rows, begins[np.minimum(index, len(begins) - 1)] - start, -1)
            where = np.where(_stands(facts, rows, placed, tried), tried, where)
    return where


def slots_at(due: Indices, where: Indices) -> Indices:
    """The slot whose unit begins at each place, unit by unit: `[n, units]`, or -1 where none does.

    `due` `[slots, units]` holds where the units of each slot begin, `where` `[n, units]` the places, both in bytes.
    """
    found = np.full(where.shape, -1, np.int64)
    for unit in range(where.shape[1]):
        order = np.argsort(due[:, unit])
        index = np.minimum(np.searchsorted(due[order, unit], where[:, unit]), len(due) - 1)
        hit = due[order[index], unit] == where[:, unit]
        found[hit, unit] = order[index[hit]]
    return found


def _find_scales(part: Part) -> Indices:
    """Where each scale stands, of those that the launch wrote outside the slots: the written number nearest to it.

    Scales of one byte are found anywhere, and so nowhere.
    """
    item = part.due_at.shape[2]
    where = np.full(part.due_at.shape[:2], -1, np.int64)
    memory, due = final(part.facts), part.side.rows.due.scale
    after, before = memory.after[part.placed.allocation], memory.before[part.placed.allocation]
    changed = np.flatnonzero(after != before)
    begins = distinct((changed - part.placed.offset) // item) * item + part.placed.offset
    begins = begins[(begins >= 0) & (begins + item <= len(after))]
    if item == 1 or due is None or not len(begins):
        return where
    raw: Bytes = np.ascontiguousarray(after[byte_offsets(begins, item)])
    there = scale_values(raw, part.placed)
    order = np.argsort(there, kind="stable")
    wanted = due.reshape(where.shape)
    first = np.searchsorted(there[order], wanted)
    for step in (0, -1, 1):
        tried = begins[order[np.clip(first + step, 0, len(begins) - 1)]]
        stands = part.stands(byte_offsets(tried, item)).all(axis=2)
        where = np.where((where < 0) & stands, tried, where)
    return where


def _stands(facts: Facts, rows: Rows, placed: Placed, tried: Indices) -> Mask:
    """Whether all of a row stands at the offset that is tried for it: `[n, heads]`."""
    offsets = tried[:, :, None] + np.arange(rows.x.shape[2])
    there = final(facts).gather(placed.allocation, offsets)
    stands: Mask = (rows.taken.allowed.admits(there.data) & there.inside).all(axis=2) & (tried >= 0)
    return stands


def _words(parts: Bytes) -> npt.NDArray[np.uint64]:
    """Runs of `WIDTH` bytes as one number each: `[..., WIDTH]` to `[...]`."""
    return np.ascontiguousarray(parts).view(np.uint64)[..., 0]
