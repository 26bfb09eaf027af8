"""K's bytes where V's belong, or the other way: both caches' pointers, or halves of one cache, exchanged."""

from __future__ import annotations

import numpy as np

from kvcheck.addresses import distinct
from kvcheck.diagnose.destination import lost_or_stray
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Mask, Stored
from kvcheck.diagnose.fault import Unpromised
from kvcheck.diagnose.match import PROOF
from kvcheck.diagnose.part import Kind, part
from kvcheck.diagnose.side import Side, condemned, placed_positions, side
from kvcheck.diagnose.strides import sibling
from kvcheck.schema import Tensor


class Exchanged(Unpromised):
    """Codes (`cache-layout`) or scales (`scale-address`) of the sibling stand in a tensor's place."""

    def __init__(self, slug: str, kind: Kind) -> None:
        """`kind` is what is exchanged."""
        self.slug = slug
        self._kind = kind

    def explanations(self, facts: Facts) -> list[Explanation]:
        """One for each tensor whose place holds the sibling's."""
        if not _alike(facts, self._kind):
            return []
        found = [self._explanation(facts, tensor) for tensor in TENSORS]
        return [each for each in found if each is not None]

    def _explanation(self, facts: Facts, tensor: Tensor) -> Explanation | None:
        held = part(facts, tensor, self._kind)
        if held is None or not held.bad.any():
            return None
        here, theirs = side(facts, tensor), side(facts, sibling(tensor)).rows
        found = theirs.taken.agreement(
            Stored(
                here.found.codes if self._kind == "codes" else theirs.due.codes,
                theirs.due.scale if self._kind == "codes" else here.found.scale,
            ),
        )
        mask = found.codes.reshape(held.lost.shape) if self._kind == "codes" else None
        if mask is None:
            assert found.scales is not None
            mask = np.broadcast_to(found.scales.reshape(held.bad.shape)[:, :, None], held.lost.shape)
        units = mask.all(axis=2) & held.bad & ~held.lost.any(axis=2)
        wrong = np.asarray(held.wrong & units[:, :, None])
        # Rows of one repeated code, of zeros as a rule, are alike whoever's they are.
        varied = (here.found.codes != here.found.codes[:, :, :1]).any(axis=2) if self._kind == "codes" else held.varied
        if int((wrong & varied[:, :, None]).sum()) < PROOF or not self._unlike(here, units):
            return None
        compared = facts.compared
        codes = scales = None
        if self._kind == "codes":
            codes = wrong[compared]
        else:
            assert here.right_scales is not None
            scales = np.asarray(wrong.any(axis=2)).reshape(here.right_scales.shape)[compared]
        other = theirs.tensor.upper()
        return Explanation(
            fault=self.slug,
            tensor=tensor,
            codes=codes,
            scales=scales,
            others=lost_or_stray(facts, distinct(placed_positions(held.placed, held.due_at[wrong]))),
            of_others=condemned(facts),
            cost=2,
            says=f"{other}'s {self._kind} stand where {tensor.upper()}'s belong",
            evidence={"units": int(units.sum())},
        )

    def _unlike(self, here: Side, units: Mask) -> bool:
        """Whether the scales that stand there are several: one for all may be what it is for any reason."""
        if self._kind == "codes" or here.found.scale is None:
            return True
        return len(np.unique(here.found.scale.reshape(units.shape)[units])) > 1


def _alike(facts: Facts, kind: Kind) -> bool:
    """Whether K and V store alike: rows of one size, and some."""
    k, v = (facts.emission.placement.find(f"{tensor}_{kind}") for tensor in TENSORS)
    return k is not None and v is not None and k.dims[2:] == v.dims[2:] and len(facts.tokens) > 0


EXCHANGED = (Exchanged("cache-layout", "codes"), Exchanged("scale-address", "scales"))
