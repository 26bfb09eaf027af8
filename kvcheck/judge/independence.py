"""Channel 4: what the kernel must not read does not matter."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from kvcheck.judge.first import Part, first_stored, split
from kvcheck.judge.subject import Bytes, Mask
from kvcheck.schema import IndependenceVerdict, Placement


class Crossed(NamedTuple):
    """Launch `number` held other values in K or V alone: its stored bytes, and which are the sibling's, `[bytes]`."""

    number: int
    stored: Bytes
    sibling: Mask


def independence_verdict(
    placement: Placement,
    stored: Sequence[Bytes],
    judged: Mask,
    parts: Sequence[Part],
    crossed: Sequence[Crossed] = (),
) -> IndependenceVerdict:
    """Bytes that changed with poison or with prefill alone, of those still `judged` `[bytes]`.

    `stored` holds each launch's bytes, of `parts`. Launches 1 and 2 differ in poison and prefill; that says something
    only where the placement has poison. Launches 1 and 3 differ in prefill: if a repeat of launch 1 gave its bytes
    again, then the kernel reads the cache, whatever the placement. Nothing stored of K may change with V, nor the
    other way: `crossed` launches say so on any placement.
    """
    repeated = len(stored) == 4
    if repeated and (stored[0] != stored[3])[judged].any():
        return IndependenceVerdict(None, "the kernel is not deterministic")
    against = [(launch.number, launch.stored, judged & launch.sibling) for launch in crossed]
    if repeated:
        against.append((3, stored[2], judged))
    if placement.independence:
        against.append((2, stored[1], judged))
    found = [(number, other, mask & (stored[0] != other)) for number, other, mask in sorted(against, key=itemgetter(0))]
    differs: Mask = np.logical_or.reduce([mask for _, _, mask in found]) if found else np.zeros(judged.shape, np.bool_)
    if not placement.independence and not differs.any():
        reason = placement.reason or "the placement has no poison"
        return (
            IndependenceVerdict(0, f"of the sibling's values alone; {reason}")
            if crossed
            else IndependenceVerdict(None, reason)
        )
    k, v = split(parts, differs)
    firsts = (first_stored(parts, mask, other, stored[0], number) for number, other, mask in found)
    return IndependenceVerdict(k + v, "", k, v, next((first for first in firsts if first is not None), None))
