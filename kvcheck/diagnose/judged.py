"""What is wrong as the judge counts it, where it and a fault may take unlike tokens' rows to stand in a shared slot.

The judge takes the row that is nearest by bytes, which says nothing where all of them are wrong. A diagnosis says how
many of the codes that the verdict counts it explains, so that both figures are of the same codes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Agreement, Facts, Indices, Mask
from kvcheck.diagnose.match import on_groups
from kvcheck.diagnose.sharers import shared
from kvcheck.diagnose.taken import any_in_row
from kvcheck.schema import ITEMSIZE, Tensor


@lru_cache(maxsize=2)
def judged(facts: Facts, tensor: Tensor) -> Agreement:
    """Which codes and scales of launch 1 the verdict has as right, of the slots that `facts` compares."""
    if facts.alone.all():
        return facts.right(tensor)
    x = facts.values(tensor, facts.stored_tokens)[_nearest(facts, tensor), np.arange(facts.emission.case.heads)]
    return facts.taken(tensor, x).agreement(facts.emitted(tensor))


def as_judged(facts: Facts, made: Explanation) -> Explanation:
    """An explanation with its masks on what the verdict counts: of a row that it gives in full, all that is wrong."""
    tensor = next((each for each in TENSORS if each == made.tensor), None)
    if tensor is None or facts.alone.all() or (made.codes is None and made.scales is None):
        return made
    right, counted = facts.right(tensor), judged(facts, tensor)
    codes = np.zeros(right.codes.shape, np.bool_) if made.codes is None else made.codes
    left = ~right.codes & ~codes
    full = np.asarray(codes.any(axis=2) & ~left.any(axis=2))
    scales = made.scales
    if right.scales is not None and counted.scales is not None:
        given = np.zeros(right.scales.shape, np.bool_) if scales is None else scales
        full = (full | (any_in_row(given, full.shape) & ~left.any(axis=2))) & ~any_in_row(
            ~right.scales & ~given, full.shape
        )
        scales = ~counted.scales & (given | on_groups(full, given))
    return replace(
        made,
        codes=~counted.codes & (codes | full[:, :, None]),
        scales=scales,
        beside=tuple(as_judged(facts, each) for each in made.beside),
    )


def _nearest(facts: Facts, tensor: Tensor) -> Indices:
    """Whose row the judge holds each slot against, a head at a time: positions in `stored_tokens`, `[n, heads]`."""
    own, emitted = facts.own_stored(tensor), facts.emitted_stored(tensor)
    due, open_codes = own.stored, own.agreement(emitted).undefined
    apart = ((due.codes != emitted.codes) & ~open_codes).sum(axis=2)
    if due.scale is not None and emitted.scale is not None:
        unlike: Mask = (due.scale != emitted.scale) & ~(np.isnan(due.scale) & np.isnan(emitted.scale))
        groups = unlike.sum(axis=2) if unlike.ndim == 3 else unlike.astype(np.int64)
        if groups.shape[1] != apart.shape[1]:
            apart = np.repeat(apart.sum(axis=1, keepdims=True), apart.shape[1], axis=1)
        apart = apart + groups * ITEMSIZE[facts.emission.placement.get(f"{tensor}_scales").dtype]
    chosen: Indices = facts.positions(tensor).copy()
    for sharers in shared(facts.slots):
        chosen[facts.row_of[sharers[0]]] = sharers[np.argmin(apart[sharers], axis=0)]
    return chosen
