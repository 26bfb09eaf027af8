"""Tokens that share a slot: under `duplicate_slots="any_row"` the slot may hold the row of any one of them."""

from __future__ import annotations

import numpy as np

from kvcheck.judge.emitted import Emitted
from kvcheck.judge.scales import agree
from kvcheck.judge.subject import Indices, Rows, Side
from kvcheck.schema import ITEMSIZE


def sources(rows: Rows, side: Side, found: Emitted) -> Indices:
    """Whose row each judged row is held against: positions in `Rows.tokens`, `[u, heads]`.

    That of the slot's only token, or of the sharing token whose right scale and codes are nearest to what stands
    there, by bytes. Chosen a head at a time where each head has a scale of its own or none, since programs of
    unlike heads may finish in any order; codes and scale always come from the same token.
    """
    heads = side.x.shape[1]
    chosen = np.repeat(rows.judged[:, None], heads, axis=1)
    for row in np.flatnonzero(rows.shared):
        candidates = rows.sharing(int(row))
        wrong = (found.codes[row] != side.codes[candidates]) & ~side.undefined[candidates]
        distance = wrong.sum(axis=2)
        if found.scale is not None and side.scales is not None:
            unlike = ~agree(found.scale[row], side.scale[candidates])
            groups = unlike.sum(axis=2) if unlike.ndim == 3 else unlike
            if groups.shape[1] != heads:
                distance = distance.sum(axis=1, keepdims=True)
            distance = distance + groups * ITEMSIZE[side.scales.dtype]
        chosen[row] = candidates[np.argmin(distance, axis=0)]  # one for all heads where they share a scale
    return chosen
