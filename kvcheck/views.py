"""Views: how K or V lies in memory, as offset and strides into a parent tensor.

A view never changes the logical values `[tokens, heads, dim]`; only `expanded` repeats them (every token is one row).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from kvcheck.schema import Tensor

#: Elements between the end of one head and the begin of the next in `head_padded`.
HEAD_PAD = 16


class View(msgspec.Struct, frozen=True):
    """`elements` of the parent; the view begins at element `offset`, `strides` for (token, head, dim).

    `parent` names a parent that K and V share when both have it (slices of one qkv tensor).
    """

    elements: int
    offset: int
    strides: tuple[int, int, int]
    parent: str | None = None


class Shape(msgspec.Struct, frozen=True):
    """The sizes a view is made for: tokens, heads, this tensor's head_dim, and K's and V's."""

    tensor: Tensor
    tokens: int
    heads: int
    dim: int
    dim_k: int
    dim_v: int


def _dense(s: Shape) -> View:
    row = s.heads * s.dim
    return View(s.tokens * row, 0, (row, s.dim, 1))


def _qkv(s: Shape) -> View:
    """A slice of `[tokens, q + k + v]`, with as many heads of Q as of K."""
    pitch = s.heads * (2 * s.dim_k + s.dim_v)
    offset = s.heads * s.dim_k * (1 if s.tensor == "k" else 2)
    return View(s.tokens * pitch, offset, (pitch, s.dim, 1), "qkv")


def _kv(s: Shape) -> View:
    """A slice of `[tokens, k + v]`."""
    pitch = s.heads * (s.dim_k + s.dim_v)
    return View(s.tokens * pitch, 0 if s.tensor == "k" else s.heads * s.dim_k, (pitch, s.dim, 1), "kv")


def _head_padded(s: Shape) -> View:
    head = s.dim + HEAD_PAD
    return View(s.tokens * s.heads * head, 0, (s.heads * head, head, 1))


def _head_interleaved(s: Shape) -> View:
    """`[tokens, heads, 3, dim]`: K is at index 1 of the third axis, V at index 2."""
    head = 3 * s.dim
    return View(s.tokens * s.heads * head, s.dim * (1 if s.tensor == "k" else 2), (s.heads * head, head, 1))


def _transposed(s: Shape) -> View:
    """`[heads, tokens, dim]` seen as `[tokens, heads, dim]`."""
    return View(s.heads * s.tokens * s.dim, 0, (s.dim, s.tokens * s.dim, 1))


def _every_second(s: Shape) -> View:
    row = s.heads * s.dim
    return View(2 * s.tokens * row, 0, (2 * row, s.dim, 1))


def _inner2(s: Shape) -> View:
    row = 2 * s.heads * s.dim
    return View(s.tokens * row, 0, (row, 2 * s.dim, 2))


def _expanded(s: Shape) -> View:
    return View(s.heads * s.dim, 0, (0, s.dim, 1))


def _offset(elements: int) -> Callable[[Shape], View]:
    def view(s: Shape) -> View:
        row = s.heads * s.dim
        return View(elements + s.tokens * row, elements, (row, s.dim, 1))

    return view


VIEWS: dict[str, Callable[[Shape], View]] = {
    "dense": _dense,
    "qkv": _qkv,
    "kv": _kv,
    "head_padded": _head_padded,
    "head_interleaved": _head_interleaved,
    "transposed": _transposed,
    "every_second": _every_second,
    "inner2": _inner2,
    "expanded": _expanded,
    "offset1": _offset(1),
    "offset8": _offset(8),
    "offset17": _offset(17),
}


class CachePads(msgspec.Struct, frozen=True):
    """Elements of a cache that no row owns: behind each slot's row, and behind each head of it."""

    row: int
    head: int

    def of_scales(self) -> CachePads:
        """The pads of a scale tensor beside codes with these: fewer, and of another size, so that pitches differ."""
        return CachePads(self.row // 16, self.head // 16)


#: How K's and V's rows lie in the cache.
CACHE_VIEWS: dict[str, CachePads] = {
    "dense": CachePads(0, 0),
    "padded": CachePads(64, 0),
    "head_padded": CachePads(0, 16),
}

_EXPLICIT = re.compile(r"(\d+),(\d+),(\d+)(?:\+(\d+))?\Z")

ACCEPTED = ", ".join(VIEWS) + ", or explicit strides 'TOKEN,HEAD,INNER' or 'TOKEN,HEAD,INNER+OFFSET' in elements"


def is_view(name: str) -> bool:
    """Whether `name` is a named view or explicit strides."""
    return name in VIEWS or _EXPLICIT.match(name) is not None


def repeats(name: str) -> bool:
    """Whether a view shows every token the same row: then it is another logical input than the same values dense."""
    explicit = _EXPLICIT.match(name)
    return name == "expanded" or (explicit is not None and int(explicit[1]) == 0)


def view(name: str, shape: Shape) -> View:
    """The view of that name for these sizes. Raises ValueError where `name` is no view."""
    if name in VIEWS:
        return VIEWS[name](shape)
    explicit = _EXPLICIT.match(name)
    if explicit is None:
        raise ValueError(f"{name!r} is not a view; accepted: {ACCEPTED}")
    token, head, inner, offset = (int(group or 0) for group in explicit.groups())
    sizes = (shape.tokens, shape.heads, shape.dim)
    last = sum((max(size, 1) - 1) * stride for size, stride in zip(sizes, (token, head, inner), strict=True))
    return View(offset + last + 1, offset, (token, head, inner))
