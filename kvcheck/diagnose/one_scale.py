"""Scales of all heads of a row in one place, each over the one before: programs that share a scale's address."""

from __future__ import annotations

import numpy as np

from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Mask
from kvcheck.diagnose.fault import Unpromised
from kvcheck.diagnose.groups import near
from kvcheck.diagnose.part import part
from kvcheck.diagnose.scale_rules import UNDECLARED_ULPS
from kvcheck.diagnose.side import condemned
from kvcheck.schema import Tensor


class OneScale(Unpromised):
    """`scale-address`: one scale of each row is stored, and it is that of another head there."""

    slug = "scale-address"

    def explanations(self, facts: Facts) -> list[Explanation]:
        """One for each tensor whose rows hold the scale of one of their heads, and no other."""
        found = [self._explanation(facts, tensor) for tensor in TENSORS]
        return [each for each in found if each is not None]

    def _explanation(self, facts: Facts, tensor: Tensor) -> Explanation | None:
        codes, held = part(facts, tensor, "codes"), part(facts, tensor, "scales")
        if held is None or codes is None or codes.lost.any():
            return None
        gone = np.asarray(held.lost.any(axis=2))
        place = _only_place(gone)
        due, stored = held.side.rows.due.scale, held.side.found.scale
        if place is None or due is None or stored is None:
            return None
        due, there = due.reshape(gone.shape), stored.reshape(gone.shape)[:, place]
        same = near(there[:, None], due, UNDECLARED_ULPS)
        # Where it is the place's own everywhere, the others are lost and nothing more is known.
        if not same.any(axis=1).all() or same[:, place].all():
            return None
        right = facts.right(tensor)
        assert right.scales is not None
        compared = facts.compared
        heads = sorted(set(same.argmax(axis=1).tolist()))
        unit = "block" if facts.emission.case.heads == 1 else "head"
        return Explanation(
            fault=self.slug,
            tensor=tensor,
            codes=np.zeros(right.codes.shape, np.bool_),
            scales=np.asarray(gone[compared].reshape(right.scales.shape) | ~right.scales),
            others=int(held.lost.sum()),
            of_others=condemned(facts),
            cost=2,
            says=(
                f"{tensor.upper()}'s scales of all {unit}s of a row are stored where {unit} {place}'s belongs, and "
                f"one stays: that of {unit} {', '.join(map(str, heads))}; the others are never stored"
            ),
            evidence={"place": place, "heads": heads},
        )


def _only_place(scales: Mask) -> int | None:
    """The unit of every row that is stored, where all others `[n, units]` are lost, and there are some."""
    if scales.shape[1] == 1:
        return None
    kept = np.asarray(~scales).sum(axis=1)
    first = np.asarray(~scales).argmax(axis=1)
    return int(first[0]) if len(first) and (kept == 1).all() and (first == first[0]).all() else None
