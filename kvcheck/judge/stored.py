"""The stored bytes of a launch as one array, so that launches can be held against each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvcheck.emission import scale_bytes
from kvcheck.judge.codes import JudgedCodes
from kvcheck.judge.emitted import Emitted
from kvcheck.judge.expected import Expected
from kvcheck.judge.first import Part
from kvcheck.judge.scales import JudgedScales
from kvcheck.judge.subject import Bytes, Mask, Subject
from kvcheck.judge.writes import Lost
from kvcheck.schema import Tensor


def stored_bytes(sides: Sequence[Emitted]) -> Bytes:
    """The judged rows of K and V: codes, then scales, uint8 `[bytes]`."""
    parts = [part for side in sides for part in (side.codes, side.scale_bytes) if part is not None]
    return np.concatenate([part.ravel() for part in parts])


def stored_parts(subject: Subject, sides: Sequence[Emitted]) -> list[Part]:
    """Whose bytes `stored_bytes` are, one part a tensor."""
    rows = subject.rows
    tokens, slots = rows.tokens[rows.judged], rows.slots[rows.judged]
    parts = []
    for side, found in zip(subject.sides, sides, strict=True):
        parts.append(Part(f"{side.tensor}_codes", (*found.codes.shape, 1), tokens, slots))
        if found.scale_bytes is not None:
            parts.append(Part(f"{side.tensor}_scales", found.scale_bytes.shape, tokens, slots))
    return parts


def right_bytes(subject: Subject, right: Sequence[Expected]) -> Bytes:
    """The bytes that are due, under the right scales, laid out as `stored_bytes`."""
    parts = []
    for side, due in zip(subject.sides, right, strict=True):
        parts.append(due.codes)
        if side.scales is not None:
            parts.append(scale_bytes(due.scale, side.scales))
    return np.concatenate([part.ravel() for part in parts])


def comparable(subject: Subject, sides: Sequence[Emitted]) -> Mask:
    """Which stored bytes must be the same in every launch: those of slots that one token names, `[bytes]`."""
    alone = ~subject.rows.shared
    return _flat([_rows_like(alone, part) for side in sides for part in (side.codes, side.scale_bytes)])


def of_other_side(subject: Subject, sides: Sequence[Emitted], redrawn: Tensor) -> Mask:
    """Which stored bytes are those of the tensor that was not redrawn, `[bytes]`."""
    parts: list[Mask | None] = []
    for side, found in zip(subject.sides, sides, strict=True):
        fill = side.tensor != redrawn
        parts += [None if part is None else np.full(part.shape, fill) for part in (found.codes, found.scale_bytes)]
    return _flat(parts)


def wrong_bytes(codes: Sequence[JudgedCodes], scales: Sequence[JudgedScales], lost: Sequence[Lost]) -> Mask:
    """Which bytes of one launch are a wrong code's, or a wrong scale's, `[bytes]`."""
    parts: list[Mask | None] = []
    for index, side in enumerate(codes):
        parts += [side.wrong, _bytes_like(scales[index].wrong, lost[index].scales) if scales else None]
    return _flat(parts)


def unjudged_bytes(codes: Sequence[JudgedCodes], lost: Sequence[Lost]) -> Mask:
    """Which bytes were lost, are of a scale that lost one, or are a code that the contract leaves open, `[bytes]`."""
    parts: list[Mask | None] = []
    for side, missing in zip(codes, lost, strict=True):
        scales = missing.elements
        parts += [~side.compared, None if scales is None else _bytes_like(scales, missing.scales)]
    return _flat(parts)


def _rows_like(rows: Mask, part: Bytes | None) -> Mask | None:
    return None if part is None else np.broadcast_to(rows.reshape(-1, *[1] * (part.ndim - 1)), part.shape)


def _bytes_like(elements: Mask, like: Mask | None) -> Mask:
    assert like is not None
    return np.broadcast_to(elements[..., None], like.shape)


def _flat(parts: Sequence[Mask | None]) -> Mask:
    return np.concatenate([part.ravel() for part in parts if part is not None])
