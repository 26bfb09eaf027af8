"""Codes or scales of one side as units of bytes, so that one search serves both: a head's codes, or one scale."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np

from kvcheck.addresses import Offsets, distinct
from kvcheck.diagnose.facts import TENSORS, Facts, Indices, Mask
from kvcheck.diagnose.final import final
from kvcheck.diagnose.side import Side, offsets_of, placed_positions, side
from kvcheck.emission import scale_values
from kvcheck.schema import Placed, Tensor

Kind: TypeAlias = Literal["codes", "scales"]
KINDS: tuple[Kind, Kind] = ("codes", "scales")


@dataclass(frozen=True)
class Part:
    """What a side stores of one kind, in units of `width` bytes that belong together: `[n, units, width]`.

    `due_at` are byte offsets, `lost` and `wrong` the bytes that were never stored, or not as they may be. `varied`
    `[n, units]` marks units whose bytes are not all alike: those prove more than the others.
    """

    facts: Facts
    side: Side
    kind: Kind
    placed: Placed
    due_at: Offsets
    lost: Mask
    wrong: Mask
    varied: Mask

    @property
    def called(self) -> str:
        """The part's name in a sentence."""
        return f"{self.side.rows.tensor.upper()}'s {self.kind}"

    @property
    def bad(self) -> Mask:
        """The units that are not as they may be, in full: `[n, units]`."""
        return np.asarray((self.lost | self.wrong).any(axis=2))

    def at(self, placed: Placed, slots: Indices | None = None, pages: Indices | None = None) -> Offsets:
        """Where the units would go in a tensor that lies as `placed` does, in slots `[n]`: `[n, units, width]`."""
        offsets = offsets_of(placed, self.side.rows.slots if slots is None else slots, pages)
        return offsets.reshape(self.due_at.shape)

    def at_all(self, slots: Indices) -> Offsets:
        """The first byte of every unit of the declared layout in slots `[m]`: `[m, units]`."""
        return offsets_of(self.placed, slots).reshape(len(slots), self.due_at.shape[1], -1)[:, :, 0]

    def stands(self, offsets: Offsets) -> Mask:
        """Which bytes stand at offsets `[n, units, width]`, as the contract allows them there; a scale in full or not.

        Bytes outside the allocation do not.
        """
        memory, rows = final(self.facts), self.side.rows
        there = memory.gather(self.placed.allocation, offsets)
        if self.kind == "codes":
            codes = there.data.reshape(rows.x.shape)
            # A scale may have been moved as well: then the codes are those of the right one.
            own, right = self.side.allowed
            held = own.admits(codes)
            if own is not right:
                by_right = right.admits(codes)
                fuller = held.all(axis=2) >= by_right.all(axis=2)
                held = np.where(fuller[:, :, None], held, by_right)
            return np.asarray(held & there.inside)
        assert self.side.found.scale is not None
        raw = np.ascontiguousarray(there.data).reshape(*self.side.found.scale.shape, offsets.shape[2])
        agreed = rows.taken.legal(scale_values(raw, self.placed))
        inside = there.inside.all(axis=2)
        return np.broadcast_to((agreed.reshape(inside.shape) & inside)[:, :, None], offsets.shape)


@lru_cache(maxsize=8)
def part(facts: Facts, tensor: Tensor, kind: Kind) -> Part | None:
    """The codes or the scales of K or V; None where no scales are stored."""
    found = side(facts, tensor)
    if kind == "codes":
        lost = found.lost
        varied = (found.rows.due.codes != found.rows.due.codes[:, :, :1]).any(axis=2)
        return Part(facts, found, kind, found.codes, found.codes_at, lost, ~found.right & ~lost, np.asarray(varied))
    if found.scales is None or found.right_scales is None or found.lost_scales is None or found.scales_at is None:
        return None
    item = found.scales_at.shape[-1]
    units = (len(found.rows.tokens), int(np.prod(found.right_scales.shape[1:])), item)
    lost = found.lost_scales.reshape(units)
    wrong = np.broadcast_to(~found.right_scales.reshape(units[:2])[:, :, None], units) & ~lost
    varied = np.ones(units[:2], np.bool_)
    return Part(facts, found, kind, found.scales, found.scales_at.reshape(units), lost, wrong, varied)


def parts(facts: Facts) -> list[Part]:
    """Codes and scales of K and V, as far as they are stored."""
    tried = [part(facts, tensor, kind) for tensor in TENSORS for kind in KINDS]
    return [each for each in tried if each is not None]


@lru_cache(maxsize=2)
def wrong_positions(facts: Facts) -> Indices:
    """The positions of all bytes of both sides that were lost or stored wrong, and of all stray ones, ascending."""
    found = [placed_positions(each.placed, each.due_at[each.lost | each.wrong]) for each in parts(facts)]
    found.append(final(facts).stray)
    return distinct(np.concatenate(found))
