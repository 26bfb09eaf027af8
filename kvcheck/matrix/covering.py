"""Covering arrays: few rows in which every combination of a few axes' values occurs.

Every combination has a candidate row: itself, and for each other axis the value that scores highest in a hash of the
two, so that a value added to an axis changes few candidates. They are taken in the order of their hashes: first those
that cover much that is new, then those that cover less. The order of axes and values in a file plays no part.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.matrix.axes import Value

Rows: TypeAlias = npt.NDArray[np.int64]
"""`[rows, axes]`: the index of each axis' value."""
Hashes: TypeAlias = npt.NDArray[np.uint64]
Exclude: TypeAlias = Mapping[int, Sequence[int]]
"""By axis, the indices of values; a row that has one of them for every axis named is dropped."""

#: A pass takes rows that have so many new combinations. Measured with 13 axes of 2 to 12 values, against one pass (1,)
#: and against ten: 194 rows (276, 184), of which 0.72 stay when an axis gains a value (0.80, 0.44).
_PASSES = (5, 2, 1)

#: Rows whose combinations are counted at a time.
_CHUNK = 4096


def cover(
    axes: Mapping[str, Sequence[Value]], excludes: Sequence[Mapping[str, Sequence[Value]]], strength: int, seed: int
) -> list[dict[str, Value]]:
    """Return rows in which every combination of `strength` axes' values occurs that an unexcluded row can have.

    An exclude names some of `axes`; naming none, it drops every row. Rows come in the order of the cross product; with
    no more axes than `strength` they are all of it.
    """
    names = list(axes)
    places = {name: {value: index for index, value in enumerate(axes[name])} for name in names}
    dropped: list[Exclude] = [
        {names.index(name): [places[name][v] for v in values if v in places[name]] for name, values in exclude.items()}
        for exclude in excludes
    ]
    hashes = [_hashes(seed, name, axes[name]) for name in names]
    combinations = list(itertools.combinations(range(len(names)), min(strength, len(names))))
    rows = _candidates(hashes, combinations, dropped)
    taken = sorted(_greedy(rows, [len(axes[name]) for name in names], combinations))
    return [{name: axes[name][index] for name, index in zip(names, row, strict=True)} for row in taken]


def _hashes(seed: int, name: str, values: Sequence[Value]) -> Hashes:
    """Return one word a value, of seed, axis and value."""
    texts = [json.dumps([seed, name, value], separators=(",", ":")) for value in values]
    digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts]
    return np.array([int.from_bytes(digest, "little") for digest in digests], dtype=np.uint64)


def _mix(words: Hashes) -> Hashes:
    """Return words whose every bit depends on every bit: the last steps of splitmix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Hashes = words ^ (words >> np.uint64(31))
    return mixed


def _candidates(hashes: list[Hashes], combinations: list[tuple[int, ...]], excludes: Sequence[Exclude]) -> Rows:
    """Return the candidate row of every combination that an unexcluded row can have, by ascending hash."""
    rows, keys = [], []
    for combination in combinations:
        grid = np.meshgrid(*[np.arange(hashes[axis].size) for axis in combination], indexing="ij")
        chosen = {axis: index.reshape(-1) for axis, index in zip(combination, grid, strict=True)}
        key = np.zeros(grid[0].size, dtype=np.uint64)
        for axis, index in chosen.items():
            key += _mix(hashes[axis][index])
        key = _mix(key)
        free = {
            axis: np.argmax(_scores(key, hashes[axis]), axis=1) for axis in range(len(hashes)) if axis not in chosen
        }
        columns = {**chosen, **free}
        rows.append(np.stack([columns[axis] for axis in range(len(hashes))], axis=1))
        rows[-1], kept = _mended(rows[-1], key, combination, hashes, excludes)
        rows[-1] = rows[-1][kept]
        keys.append(key[kept])
    return np.concatenate(rows)[np.argsort(np.concatenate(keys), kind="stable")]


def _scores(keys: Hashes, values: Hashes) -> Hashes:
    """Return how much each key prefers each value: `[keys, values]`."""
    return _mix(keys[:, None] ^ values[None, :])


def _excluded(rows: Rows, excludes: Sequence[Exclude]) -> npt.NDArray[np.bool_]:
    """Return which rows an exclude drops, `[rows]`."""
    dropped = np.zeros(len(rows), dtype=np.bool_)
    for exclude in excludes:
        dropped |= np.all([np.isin(rows[:, axis], indices) for axis, indices in exclude.items()], axis=0)
    return dropped


def _mended(
    rows: Rows, keys: Hashes, combination: tuple[int, ...], hashes: list[Hashes], excludes: Sequence[Exclude]
) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Return the rows, excluded ones with other values on free axes, and which of them are not excluded now."""
    kept = ~_excluded(rows, excludes)
    bound = sorted({axis for exclude in excludes for axis in exclude} - set(combination))
    for row in np.flatnonzero(~kept):
        fixed = {axis: int(rows[row, axis]) for axis in combination}
        orders = {axis: np.argsort(_scores(keys[row : row + 1], hashes[axis])[0])[::-1].tolist() for axis in bound}
        found = _complete(fixed, bound, orders, excludes)
        if found is not None:
            kept[row] = True
            for axis, index in found.items():
                rows[row, axis] = index
    return rows, kept


def _complete(
    chosen: dict[int, int], free: list[int], orders: Mapping[int, list[int]], excludes: Sequence[Exclude]
) -> dict[int, int] | None:
    """Return `chosen` with a value for each free axis, the first in its order that works, or None if none does."""
    for exclude in excludes:
        if all(axis in chosen and chosen[axis] in indices for axis, indices in exclude.items()):
            return None
    if not free:
        return chosen
    for index in orders[free[0]]:
        found = _complete({**chosen, free[0]: index}, free[1:], orders, excludes)
        if found is not None:
            return found
    return None


def _greedy(rows: Rows, sizes: list[int], combinations: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return rows, in the order of the passes, that together cover all that `rows` do."""
    counts = [int(np.prod([sizes[axis] for axis in combination])) for combination in combinations]
    starts = np.concatenate([[0], np.cumsum(counts)])
    missing = np.ones(int(starts[-1]), dtype=np.bool_)
    taken: list[tuple[int, ...]] = []
    for needed in _PASSES:
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            covers = _covered(chunk, sizes, combinations, starts)
            for row in np.flatnonzero(missing[covers].sum(axis=1) >= needed):
                if missing[covers[row]].sum() >= needed:
                    missing[covers[row]] = False
                    taken.append(tuple(chunk[row].tolist()))
    return taken


def _covered(
    rows: Rows, sizes: list[int], combinations: list[tuple[int, ...]], starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the number of each combination of values that each row has: `[rows, combinations]`."""
    covers = np.empty((len(rows), len(combinations)), dtype=np.int64)
    for column, combination in enumerate(combinations):
        number = np.zeros(len(rows), dtype=np.int64)
        for axis in combination:
            number = number * sizes[axis] + rows[:, axis]
        covers[:, column] = number + starts[column]
    return covers
