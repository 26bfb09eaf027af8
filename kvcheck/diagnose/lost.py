"""Bytes that were due and never stored, nor stand anywhere else: whole tokens, or the tail of every row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from kvcheck.addresses import among
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Indices, Mask
from kvcheck.diagnose.fault import Unpromised
from kvcheck.diagnose.match import SHARE
from kvcheck.diagnose.misplaced import moved_positions
from kvcheck.diagnose.moves import stale_scales
from kvcheck.diagnose.part import Part, part
from kvcheck.diagnose.short_scales import short_dtype
from kvcheck.diagnose.side import condemned, placed_positions
from kvcheck.diagnose.strides import dense_rows
from kvcheck.schema import Placed, Tensor

#: Tokens that a sentence names.
NAMED = 4
#: Rows at the edges of pages that must be lost, and rows that a page has besides others.
EDGES = 2
#: A vector of codes: what a kernel without a mask for the rest leaves out is what lies behind the last one.
VECTOR = 8


@dataclass(frozen=True)
class Lost:
    """What of one tensor is lost, of all stored `tokens`: `codes` `[n, heads, dim]` and `scales` `[n, units]`.

    Of `scales` that are not `whole` some bytes are stored.
    """

    tensor: Tensor
    tokens: Indices
    codes: Mask
    scales: Mask | None
    bytes: int
    whole: bool

    @property
    def tail(self) -> str:
        """What is lost, where that is the end of each head, of its heads, of each row, or of all rows; else empty."""
        return self._of_each or self._of_all

    @property
    def _of_all(self) -> str:
        """The end of all rows one behind the other, where it begins within one: whole rows are tokens."""
        flat, row = self.codes.reshape(-1), self.codes[0].size if len(self.codes) else 1
        first = int(np.argmax(flat))
        if not flat.any() or not flat[first:].all() or first % row == 0:
            return ""
        counted = int(self.tokens[first // row]) * row + first % row
        return f"all rows from element {counted} on, counted over all tokens,"

    @property
    def _of_each(self) -> str:
        whole, found = np.asarray(self.codes.all(axis=0)), np.asarray(self.codes.any(axis=0))
        if not len(self.codes) or (whole != found).any() or not found.any() or whole.all():
            return ""
        dims, heads = np.asarray(whole.all(axis=0)), np.asarray(whole.all(axis=1))
        for kept, name in ((dims, "element"), (heads, "head")):
            first = int(np.argmax(kept))
            last = len(kept) - 1
            same = whole == (kept[None, :] if name == "element" else kept[:, None])
            if kept.any() and kept[first:].all() and same.all():
                which = f"{name} {last}" if first == last else f"{name}s {first} to {last}"
                return f"{which} of each {'head' if name == 'element' else 'token'}"
        flat = whole.reshape(-1)
        first = int(np.argmax(flat))
        return f"lanes {first} to {flat.size - 1} of each token" if flat[first:].all() else ""


@lru_cache(maxsize=4)
def lost(facts: Facts, tensor: Tensor) -> Lost | None:
    """What of K or V was never stored and does not stand elsewhere either."""
    codes, scales = part(facts, tensor, "codes"), part(facts, tensor, "scales")
    assert codes is not None
    here = _unmoved(facts, codes)
    there = None if scales is None else _unmoved(facts, scales) & ~stale_scales(facts, tensor)[:, :, None]
    if there is not None and short_dtype(facts, tensor):
        there = np.zeros_like(there)
    count = int(here.sum()) + (0 if there is None else int(there.sum()))
    if not count:
        return None
    if there is None:
        return Lost(tensor, facts.stored_tokens, here, None, count, whole=True)
    return Lost(
        tensor,
        facts.stored_tokens,
        here,
        np.asarray(there.any(axis=2)),
        count,
        whole=bool((there == there[:, :, :1]).all()),
    )


def _unmoved(facts: Facts, held: Part) -> Mask:
    at = placed_positions(held.placed, held.due_at).reshape(held.due_at.shape)
    gone: Mask = held.lost & ~among(at, moved_positions(facts))
    return gone


class TokenLost:
    """`token-lost`: rows, or parts of them, are not stored at all."""

    slug = "token-lost"
    forms = ("two tokens at a time", "into a contiguous copy of the cache")

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether either kernel would lose a row.

        One takes tokens two at a time and leaves out an odd last one; one works on a contiguous copy of the codes,
        which is the codes themselves where they are contiguous.
        """
        count = facts.emission.case.tokens
        codes = [facts.emission.placement.get(f"{tensor}_codes") for tensor in TENSORS]
        copied = len(facts.tokens) > 0 and not all(_is_contiguous(placed) for placed in codes)
        return dict(zip(self.forms, (count % 2 == 1 and count - 1 in facts.stored_tokens, copied), strict=True))

    def explanations(self, facts: Facts) -> list[Explanation]:
        """One for each tensor that lost more than the tail of its rows, and not by the way, as others went wrong."""
        found = [each for each in (lost(facts, tensor) for tensor in TENSORS) if each and not each.tail]
        return [_says(facts, self.slug, each, _tokens(facts, each)) for each in found if not _by_the_way(facts, each)]


class LostTail:
    """`tail-mask`, as a store shows it: the end of every row is not stored."""

    slug = "tail-mask"
    forms = ("the last element not stored", "whole vectors of eight stored")

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether a kernel would lose a code that stores all but the last, or whole vectors of eight alone."""
        dims = [facts.emission.placement.get(f"{tensor}_codes").dims[3] for tensor in TENSORS]
        some = len(facts.tokens) > 0
        return dict(zip(self.forms, (some, some and any(dim % VECTOR for dim in dims)), strict=True))

    def explanations(self, facts: Facts) -> list[Explanation]:
        """One for each tensor that lost the tail of all its rows."""
        found = [lost(facts, tensor) for tensor in TENSORS]
        return [
            _says(facts, self.slug, each, f"codes of {each.tail} are never stored")
            for each in found
            if each and each.tail
        ]


class LostEdge(Unpromised):
    """`page-boundary`, as a store shows it that leaves out the first or the last row of each page."""

    slug = "page-boundary"

    def explanations(self, facts: Facts) -> list[Explanation]:
        """One for each tensor that lost all rows at one edge of their pages, and no other."""
        found = [(each, _edge(facts, each)) for each in (lost(facts, tensor) for tensor in TENSORS) if each]
        return [replace(_says(facts, self.slug, each, edge), cost=3) for each, edge in found if edge]


def _edge(facts: Facts, found: Lost) -> str:
    """Which rows of pages are lost in full, in words, where these are one edge's and others stay; else empty."""
    page = facts.emission.placement.get(f"{found.tensor}_codes").dims[1]
    gone, some = np.asarray(found.codes.all(axis=(1, 2))), np.asarray(found.codes.any(axis=(1, 2)))
    row = facts.slots % page
    # One row may be lost for many reasons, and of pages of two rows either is an edge.
    if page <= EDGES or gone.sum() < EDGES or (gone != some).any() or gone.all():
        return ""
    for edge, name in ((page - 1, "last"), (0, "first")):
        if (gone == (row == edge)).all():
            slots = ", ".join(map(str, facts.slots[gone][:NAMED].tolist()))
            return f"rows that are the {name} of a page of {page} are never stored: those of slots {slots}"
    return ""


def _by_the_way(facts: Facts, found: Lost) -> bool:
    """Whether parts of rows alone are lost, and more codes are wrong than are: what moved them lost some as well."""
    if found.codes.all(axis=2).any() or (found.scales is not None and found.scales.any()):
        return False
    gone = found.codes[facts.compared]
    return bool(gone.sum() < SHARE * (~facts.right(found.tensor).codes | gone).sum())


def _is_contiguous(placed: Placed) -> bool:
    """Whether rows follow each other without a gap: the stride of one element alone does not matter."""
    pairs = zip(placed.dims, placed.strides, dense_rows(placed), strict=True)
    return all(stride == dense for size, stride, dense in pairs if size > 1)


def _tokens(facts: Facts, found: Lost) -> str:
    """Which rows are lost, in words."""
    count, all_tokens = facts.emission.case.tokens, facts.stored_tokens
    rows = np.asarray(found.codes.any(axis=(1, 2)))
    whole = np.asarray(found.codes.all(axis=(1, 2)))
    what = "rows"
    of_heads = ""
    if found.scales is not None:
        scales = np.asarray(found.scales.any(axis=1))
        what = "scales" if not rows.any() else ("codes" if not scales.any() else "rows")
        of_heads = _heads(found.scales[scales]) if what == "scales" else ""
        rows, whole = rows | scales, whole | (scales if not rows.any() else np.zeros_like(scales))
    tokens = all_tokens[rows]
    if len(tokens) == len(all_tokens):
        which = f"all {len(tokens)} tokens"
    elif len(tokens) > 1 and (tokens == all_tokens[-len(tokens) :]).all():
        which = f"the last {len(tokens)} of {len(all_tokens)} tokens, from {tokens[0]} on"
    elif tokens[-1] == all_tokens[-1] and len(tokens) == 1:
        which = f"the last token ({tokens[0]} of {count})"
    else:
        named = ", ".join(str(token) for token in tokens[:NAMED].tolist())
        more = f" and {len(tokens) - NAMED} others" if len(tokens) > NAMED else ""
        which = f"token{'s' if len(tokens) > 1 else ''} {named}{more}"
    copies = [copy for copy in facts.emission.copies if copy.tensor.startswith(found.tensor) and "_" in copy.tensor]
    why = f" (the target works on a copy of {copies[0].tensor})" if copies else ""
    entire = found.whole and (whole[rows].all() or what == "scales")
    partly = "" if entire else f", {found.bytes} bytes of them,"
    return f"{what} of {which}{of_heads}{partly} are never stored{why}"


def _heads(scales: Mask) -> str:
    """Which scales of a row are lost, `[tokens, units]`, where they are the same of all and others are not."""
    whole = np.asarray(scales.all(axis=0))
    if whole.all() or (scales.any(axis=0) != whole).any():
        return ""
    kept = [str(unit) for unit in np.flatnonzero(~whole).tolist()]
    return f", but those of number {', '.join(kept[:NAMED])}{' and others' if len(kept) > NAMED else ''} in each row,"


def _says(facts: Facts, slug: str, found: Lost, says: str) -> Explanation:
    compared = facts.compared
    codes, scales = found.codes[compared] & ~facts.right(found.tensor).codes, found.scales
    shape = part(facts, found.tensor, "scales")
    if scales is not None and shape is not None and shape.side.right_scales is not None:
        scales = scales[compared].reshape((-1, *shape.side.right_scales.shape[1:]))
    rows = np.asarray(found.codes.any(axis=(1, 2)))
    if found.scales is not None:
        rows = rows | found.scales.any(axis=1)
    return Explanation(
        fault=slug,
        tensor=found.tensor,
        codes=codes,
        scales=scales,
        others=found.bytes,
        of_others=condemned(facts),
        cost=4,
        says=f"{found.tensor.upper()}'s {says}",
        evidence={"tokens": facts.stored_tokens[rows].tolist(), "bytes": found.bytes},
    )
