"""Channel 3: every addressed byte was stored, and no other byte of the cache or around it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvcheck.addresses import Offsets, byte_offsets, row_offsets
from kvcheck.draw.image import prefill_rows
from kvcheck.emission import PREFILLS
from kvcheck.judge.changes import Changes
from kvcheck.judge.emitted import Emitted
from kvcheck.judge.first import Part, first_stored
from kvcheck.judge.subject import Bytes, Mask, Side, Subject
from kvcheck.schema import ITEMSIZE, Placed, WritesVerdict


@dataclass(frozen=True)
class Lost:
    """Bytes of K or V that were due and never stored: `codes` `[u, heads, dim]`, `scales` `[u, *groups, item]`."""

    codes: Mask
    scales: Mask | None

    @property
    def elements(self) -> Mask | None:
        """The scales that lost a byte, `[u, *groups]`."""
        return None if self.scales is None else np.asarray(self.scales.any(axis=-1))

    @property
    def count(self) -> int:
        """How many bytes."""
        return int(self.codes.sum()) + (0 if self.scales is None else int(self.scales.sum()))


def lost(subject: Subject, side: Side, launches: Sequence[Emitted]) -> Lost:
    """Which addressed bytes equal their prefill in all of the first three launches.

    No two prefills share a byte, so a byte that was stored can do so only if it follows the prefill, as one that a
    kernel copies from the cache would.
    """
    slots = subject.rows.slots[subject.rows.judged]
    codes = _never_stored(
        subject, side.placed, row_offsets(side.placed, slots), [launch.codes for launch in launches[:3]]
    )
    if side.scales is None:
        return Lost(codes, None)
    offsets = byte_offsets(row_offsets(side.scales, slots), ITEMSIZE[side.scales.dtype])
    raw = [launch.scale_bytes for launch in launches[:3] if launch.scale_bytes is not None]
    return Lost(codes, _never_stored(subject, side.scales, offsets, raw))


def writes_verdict(
    lost_bytes: Sequence[Lost], parts: Sequence[Part], stored: Bytes, right: Bytes, changed: Changes
) -> WritesVerdict:
    """The channel's figures: `lost_bytes` of K and V, and the bytes that are nobody's to change.

    `stored` `[bytes]` are launch 1's, `right` those that were due; both cover `parts`.
    """
    mask = np.concatenate(
        [part.ravel() for side in lost_bytes for part in (side.codes, side.scales) if part is not None]
    )
    k, v = (side.count for side in lost_bytes)
    return WritesVerdict(
        lost=k + v,
        stray=changed.stray,
        k_lost=k,
        v_lost=v,
        k_stray=changed.k_stray,
        v_stray=changed.v_stray,
        first_lost=first_stored(parts, mask, stored, right, 1),
        first_stray=changed.first_stray,
    )


def _never_stored(subject: Subject, placed: Placed, offsets: Offsets, found: Sequence[Bytes]) -> Mask:
    suspect = np.ones(offsets.shape, np.bool_)
    for letter, data in zip(PREFILLS, found, strict=True):
        if not suspect.any():
            break
        before = prefill_rows(subject.placement, subject.case, placed.name, offsets[suspect], letter)
        suspect[suspect] = data[suspect] == before
    return suspect
