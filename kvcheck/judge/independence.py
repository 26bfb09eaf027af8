"""Channel 4: what the kernel must not read does not matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kvcheck.judge.subject import Bytes, Mask
from kvcheck.schema import IndependenceVerdict, Placement


class Crossed(NamedTuple):
    """A launch in which K or V alone held other values: its stored bytes, and which are the sibling's, `[bytes]`."""

    stored: Bytes
    sibling: Mask


def independence_verdict(
    placement: Placement, stored: Sequence[Bytes], judged: Mask, crossed: Sequence[Crossed] = ()
) -> IndependenceVerdict:
    """Bytes that changed with poison or with prefill alone, of those still `judged` `[bytes]`.

    `stored` holds each launch's bytes. Launches 1 and 2 differ in poison and prefill; that says something only where
    the placement has poison. Launches 1 and 3 differ in prefill: if a repeat of launch 1 gave its bytes again, then
    the kernel reads the cache, whatever the placement. Nothing stored of K may change with V, nor the other way:
    `crossed` launches say so on any placement.
    """
    repeated = len(stored) == 4
    if repeated and (stored[0] != stored[3])[judged].any():
        return IndependenceVerdict(None, "the kernel is not deterministic")
    differs = np.zeros(judged.shape, np.bool_)
    if repeated:
        differs |= judged & (stored[0] != stored[2])
    for launch in crossed:
        differs |= judged & launch.sibling & (stored[0] != launch.stored)
    if placement.independence:
        differs |= judged & (stored[0] != stored[1])
    elif not differs.any():
        reason = placement.reason or "the placement has no poison"
        return (
            IndependenceVerdict(0, f"of the sibling's values alone; {reason}")
            if crossed
            else IndependenceVerdict(None, reason)
        )
    return IndependenceVerdict(int(differs.sum()))
