"""Faults of scales: another rule for the scale, or another use of it, held against all that a tensor stores.

A form predicts every scale and code of a tensor. It is believed where no emitted byte speaks against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Mask, Stored
from kvcheck.schema import Tensor


@dataclass(frozen=True, eq=False)
class Made:
    """What a form predicts: `stored`, how a sentence says it, and what it recovered from the bytes."""

    stored: Stored
    says: str
    evidence: dict[str, int | float | str | list[int]]


#: What a kernel of this form stores for a tensor, in a case where it emitted `Stored`; None where it cannot be.
Form = Callable[[Facts, Tensor, Stored], Made | None]


class ScaleFault:
    """One fault in its forms, the first of equals being the simplest."""

    def __init__(self, slug: str, forms: Sequence[Form]) -> None:
        """`slug` names the fault; `forms` are the ways to have it."""
        self.slug = slug
        self._forms = tuple(forms)

    def observable(self, facts: Facts) -> bool:
        """Whether every form that this contract admits leaves a byte in K or V that a right kernel may not leave."""
        shown: list[bool] = []
        for form in self._forms:
            admitted = [shows for tensor in TENSORS if (shows := _shows(facts, tensor, form)) is not None]
            shown += [any(admitted)] if admitted else []
        return bool(shown) and all(shown)

    def explanations(self, facts: Facts) -> list[Explanation]:
        """The first form, for each tensor with wrong codes or scales, that gives all its bytes."""
        return [made for tensor in TENSORS if (made := self._explanation(facts, tensor)) is not None]

    def _explanation(self, facts: Facts, tensor: Tensor) -> Explanation | None:
        if facts.all_right(tensor):
            return None
        emitted, right = facts.emitted(tensor), facts.right(tensor)
        for form in self._forms:
            made = form(facts, tensor, emitted)
            if made is None or not _gives(made.stored, emitted, right.undefined):
                continue
            scales = None if right.scales is None else ~right.scales
            says, evidence = f"{tensor.upper()}'s {made.says}", made.evidence
            return Explanation(self.slug, tensor, ~right.codes, scales, 0, 0, 1, says, evidence)
        return None


def _shows(facts: Facts, tensor: Tensor, form: Form) -> bool | None:
    """Whether a form leaves a byte that is not right; None where the contract does not admit it."""
    made = form(facts, tensor, facts.stored(tensor, facts.values(tensor)))
    if made is None:
        return None
    found = facts.agreement(tensor, facts.values(tensor), made.stored)
    return not (found.codes.all() and (found.scales is None or found.scales.all()))


def _gives(stored: Stored, emitted: Stored, undefined: Mask) -> bool:
    """Whether a prediction is what was emitted, but for codes that the contract leaves open."""
    if (stored.scale is None) != (emitted.scale is None):
        return False
    if stored.scale is not None and emitted.scale is not None:
        same = stored.scale.shape == emitted.scale.shape
        if not same or not np.array_equal(stored.scale, emitted.scale, equal_nan=True):
            return False
    return bool(((stored.codes == emitted.codes) | undefined).all())
