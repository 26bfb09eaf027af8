"""The right bytes that each judged row is held against, once it is known whose row it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvcheck.contract import Computed
from kvcheck.judge.subject import Bytes, Floats, Indices, Mask, Rows, Side


@dataclass(frozen=True)
class Expected:
    """`Side`'s arrays for the judged rows: `[u, heads, dim]`, a computed `scale` `[u, *groups]`.

    `tokens` `[u, heads]` are those whose rows these are.
    """

    tokens: Indices
    x: Floats
    scale: Floats
    codes: Bytes
    undefined: Mask


def expected(rows: Rows, side: Side, sources: Indices) -> Expected:
    """The right bytes for rows that hold those of `sources`, positions in `Rows.tokens`, `[u, heads]`."""
    tokens = rows.tokens[sources]
    if not rows.shared.any():
        return Expected(tokens, side.x, side.scale, side.codes, side.undefined)
    heads = np.arange(side.x.shape[1])
    scale = side.scale
    if isinstance(side.contract.scale, Computed):
        # With one scale a token `sources` names one token for all heads.
        scale = scale[sources, heads] if scale.shape[1] == len(heads) else scale[sources[:, 0]]
    return Expected(tokens, side.x[sources, heads], scale, side.codes[sources, heads], side.undefined[sources, heads])
