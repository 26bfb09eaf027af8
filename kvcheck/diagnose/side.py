"""K's or V's stored rows as bytes in memory: where they are due, what stands there, what is right and what was lost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from kvcheck.addresses import Offsets, byte_offsets
from kvcheck.diagnose.facts import TENSORS, Bytes, Facts, Floats, Indices, Mask, Stored
from kvcheck.diagnose.final import Final, final, positions
from kvcheck.diagnose.taken import AllowedCodes, Taken
from kvcheck.emission import scale_bytes, scale_values
from kvcheck.schema import ITEMSIZE, Placed, Tensor


@dataclass(frozen=True)
class Rows:
    """Rows of K or V, `taken`, and their `slots` int64 `[n]`; -1 for rows that are not to be stored."""

    tensor: Tensor
    tokens: Indices
    slots: Indices
    taken: Taken

    @property
    def x(self) -> Floats:
        """The rows: fp32 `[n, heads, dim]`."""
        return self.taken.x

    @property
    def due(self) -> Stored:
        """What a right kernel stores of them."""
        return self.taken.stored


@dataclass(frozen=True)
class Side:
    """K or V after launch 1. `rows` are all stored tokens, those that share a slot included.

    `codes_at` `[n, heads, dim]` and `scales_at` `[n, *groups, item]` are the byte offsets where they are due. `right`
    `[n, heads, dim]` and `right_scales` `[n, *groups]` mark what stands there as it may, where tokens share a slot by
    the row that most likely does. `lost` and `lost_scales` `[n, *groups, item]` mark bytes that were never stored. What
    concerns scales is None where none are stored.
    """

    rows: Rows
    codes: Placed
    scales: Placed | None
    codes_at: Offsets
    scales_at: Offsets | None
    found: Stored
    right: Mask
    right_scales: Mask | None
    lost: Mask
    lost_scales: Mask | None

    @cached_property
    def allowed(self) -> tuple[AllowedCodes, AllowedCodes]:
        """The codes that are allowed of the rows: by the stored scales, where they are right; by the right ones."""
        taken = self.rows.taken
        return taken.by(self.found.scale), taken.allowed


@lru_cache(maxsize=4)
def side(facts: Facts, tensor: Tensor) -> Side:
    """One side of launch 1. Kept for the faults that come after."""
    memory = final(facts)
    rows = Rows(tensor, facts.stored_tokens, facts.slots, facts.own_stored(tensor))
    codes = facts.emission.placement.get(f"{tensor}_codes")
    scales = facts.emission.placement.find(f"{tensor}_scales")
    codes_at = offsets_of(codes, rows.slots)[..., 0]
    scales_at = None if scales is None else offsets_of(scales, rows.slots)
    found = stored_at(memory, codes, codes_at, scales, scales_at)
    right = facts.right(tensor)
    right_scales = None if right.scales is None else right.scales[facts.row_of]
    lost_scales = None if scales is None else memory.lost(scales)
    lost = memory.lost(codes)[..., 0]
    return Side(
        rows, codes, scales, codes_at, scales_at, found, right.codes[facts.row_of], right_scales, lost, lost_scales
    )


def rows_of(facts: Facts, tensor: Tensor, tokens: Indices, slots: Indices) -> Rows:
    """The rows of some tokens, for slots `[n]`."""
    return Rows(tensor, tokens, slots, facts.taken(tensor, facts.values(tensor, tokens)))


def offsets_of(placed: Placed, slots: Indices, pages: Indices | None = None) -> Offsets:
    """The byte offsets of rows at `slots`, which the tensor may not have: `[n, *a row's dims, item]`.

    A slot below zero lies in a page before the first. `pages` overrides the page of each slot.
    """
    page = placed.dims[1]
    item = ITEMSIZE[placed.dtype]
    which = slots // page if pages is None else pages
    steps = which * placed.strides[0] + (slots % page) * placed.strides[1]
    for size, stride in zip(placed.dims[2:], placed.strides[2:], strict=True):
        steps = steps[..., None] + np.arange(size, dtype=np.int64) * stride
    return byte_offsets(placed.offset + steps * item, item)


def stored_at(
    memory: Final, codes: Placed, codes_at: Offsets, scales: Placed | None, scales_at: Offsets | None
) -> Stored:
    """What stands after the launch at some places for codes and scales."""
    found = memory.gather(codes.allocation, codes_at).data
    if scales is None or scales_at is None:
        return Stored(found, None)
    raw: Bytes = np.ascontiguousarray(memory.gather(scales.allocation, scales_at).data)
    return Stored(found, scale_values(raw, scales))


def due_scale_bytes(rows: Rows, scales: Placed) -> Bytes:
    """The bytes of the right scales: uint8 `[n, *groups, item]`."""
    assert rows.due.scale is not None
    return scale_bytes(rows.due.scale, scales)


def row_mask(rows: Mask, shape: tuple[int, ...]) -> Mask:
    """A mask of (token, head) rows on all their elements."""
    return np.broadcast_to(rows[:, :, None], shape)


def condemned(facts: Facts) -> int:
    """How many bytes launch 1 lost or stored astray."""
    sides = [side(facts, tensor) for tensor in TENSORS]
    lost = sum(
        int(each.lost.sum()) + (0 if each.lost_scales is None else int(each.lost_scales.sum())) for each in sides
    )
    return lost + len(final(facts).stray)


def placed_positions(placed: Placed, offsets: Offsets) -> Indices:
    """Byte offsets as positions (see `final.positions`), flat."""
    return positions(placed.allocation, offsets).ravel()
