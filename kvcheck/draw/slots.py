"""Which row of the cache each token goes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.draw import counter

Slots: TypeAlias = npt.NDArray[np.int64]

#: The first slot of `ascending`: a kernel that takes the token's index for its slot is seen.
FIRST = 3


def slot_count(tokens: int, page: int) -> int:
    """Return the rows of the cache: a multiple of `page`, at least `2 * tokens + 8`, so that some stay unaddressed."""
    return -(-(2 * tokens + 8) // page) * page


def slot_ids(kind: str, tokens: int, slots: int, page: int, seed: int) -> Slots:
    """Return the slot of each token, int64 `[tokens]`; -1 means that the token is not stored.

    Raises ValueError for an unknown kind, or where `slots` is too few for `tokens`.
    """
    if kind not in _KINDS:
        raise ValueError(f"{kind!r} is not a kind of slots; accepted: {ACCEPTED}")
    if tokens + FIRST > slots:
        raise ValueError(f"{tokens} tokens do not fit in {slots} slots, {FIRST} of them left free")
    return _KINDS[kind](tokens, slots, page, seed)


def check(kind: str) -> str | None:
    """Say why `kind` is no kind of slots, or None where it is one."""
    return None if kind in _KINDS else f"{kind!r} is not a kind of slots"


def unaddressed(ids: Slots, slots: int) -> Slots:
    """Return the rows of the cache that no token goes to, ascending, int64."""
    free = np.ones(slots, dtype=np.bool_)
    free[ids[ids >= 0]] = False
    return np.flatnonzero(free).astype(np.int64)


def _ascending(tokens: int, slots: int, page: int, seed: int) -> Slots:  # noqa: ARG001 - one signature for all kinds
    return np.arange(FIRST, FIRST + tokens, dtype=np.int64)


def _permuted(tokens: int, slots: int, page: int, seed: int) -> Slots:  # noqa: ARG001
    drawn = counter.words(("slots", "permuted", tokens, slots, seed), 0, slots)
    return np.argsort(drawn, kind="stable")[:tokens].astype(np.int64)


def _negative_mixed(tokens: int, slots: int, page: int, seed: int) -> Slots:
    """Return distinct slots, about a third of them -1: one at least, and where there are two tokens not all."""
    drawn = counter.words(("slots", "negative", tokens, slots, seed), 0, tokens)
    negative = drawn % np.uint64(3) == 0
    if tokens:
        first = int(drawn[0] // np.uint64(3)) % tokens
        negative[(first + 1) % tokens] = False
        negative[first] = True
    return np.where(negative, -1, _permuted(tokens, slots, page, seed)).astype(np.int64)


def _duplicates(tokens: int, slots: int, page: int, seed: int) -> Slots:
    """Return half as many slots as tokens, rounded up, each for two tokens or one, in drawn order."""
    few = _permuted((tokens + 1) // 2, slots, page, seed)
    drawn = counter.words(("slots", "duplicates", tokens, slots, seed), 0, tokens)
    return few[np.argsort(drawn, kind="stable") // 2]


def _all_negative(tokens: int, slots: int, page: int, seed: int) -> Slots:  # noqa: ARG001
    return np.full(tokens, -1, dtype=np.int64)


def _last(tokens: int, slots: int, page: int, seed: int) -> Slots:  # noqa: ARG001
    return np.arange(slots - 1, slots - 1 - tokens, -1, dtype=np.int64)


def _page_edges(tokens: int, slots: int, page: int, seed: int) -> Slots:
    """Return the last row of a page, the first of the next, boundary by boundary; when all are used, one row inward."""
    if page == 1:  # every row is an edge
        return _ascending(tokens, slots, page, seed)
    rows = np.arange(slots, dtype=np.int64)
    in_page = rows % page
    opens = in_page < page - 1 - in_page
    boundary = rows // page + np.where(opens, 0, 1)
    boundary[boundary == 0] = slots // page  # the cache's two ends come last
    depth = np.minimum(in_page, page - 1 - in_page)
    return np.lexsort((opens, boundary, depth))[:tokens].astype(np.int64)


_KINDS: dict[str, Callable[[int, int, int, int], Slots]] = {
    "ascending": _ascending,
    "permuted": _permuted,
    "negative_mixed": _negative_mixed,
    "duplicates": _duplicates,
    "all_negative": _all_negative,
    "last": _last,
    "page_edges": _page_edges,
}

ACCEPTED = ", ".join(_KINDS)
