"""`sibling-pitch`: V is read with K's strides, or K with V's.

A kernel that takes one row pitch and uses it for both tensors is right as long as both lie alike. Row 0 is right
always; row t is read from t * (the sibling's pitch): inside the tensor first, a wrong row, then beyond its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from kvcheck.diagnose import received
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts
from kvcheck.diagnose.match import Match, believed, by_place, match
from kvcheck.diagnose.prospect import fails_reading
from kvcheck.diagnose.reach import stopped_in
from kvcheck.diagnose.reading import explained
from kvcheck.schema import Placed, Tensor

_FORMS: dict[Tensor, str] = {"v": "V by K's token pitch", "k": "K by V's token pitch"}


class SiblingPitch:
    """Predicts a store from rows read with the sibling's token pitch, or with all three of its strides."""

    slug = "sibling-pitch"

    forms = tuple(_FORMS.values())

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether reading V with K's token pitch would leave another byte than a right kernel's, and K with V's.

        A kernel has one of the two: a pass rules the fault out where both would have shown. Reading a tensor with all
        of the sibling's strides is the same fault, seen more often: named where it is met, but a pass does not claim
        that it would have been.
        """
        return {form: self._shows(facts, tensor) for tensor, form in _FORMS.items()}

    def _shows(self, facts: Facts, tensor: Tensor) -> bool:
        own = facts.emission.placement.get(tensor)
        return any(
            stopped_in(facts, used)
            or any(fails_reading(facts, tensor, before.read(used)) for before in facts.launches(tensor))
            for used in _readings(facts, tensor)
            if used.strides[1:] == own.strides[1:]
        )

    def explanations(self, facts: Facts) -> list[Explanation]:
        """The better of both readings for each tensor, where it explains at least half of what is wrong."""
        made = []
        for tensor in TENSORS:
            tried = [(_match(facts, tensor, used), used) for used in _readings(facts, tensor)]
            # The first of equals: one wrong stride is a simpler account than three.
            best = max(tried, key=lambda pair: (pair[0].codes, pair[0].scales), default=None)
            if best is not None and (believed(best[0]) or by_place(best[0])) and _needs_pitch(facts, tensor, *best):
                made.append(_explanation(facts, tensor, *best))
        return made


def _needs_pitch(facts: Facts, tensor: Tensor, found: Match, used: Placed) -> bool:
    """Whether the sibling's token pitch is part of what a reading explains.

    With one token, or equal pitches, a wrong head pitch or inner stride alone leaves the same bytes: those may be the
    sibling's, or dense ones, and no pitch was shared.
    """
    own = facts.emission.placement.get(tensor)
    if used.strides[1:] == own.strides[1:]:
        return True
    without = msgspec.structs.replace(own, strides=(own.strides[0], *used.strides[1:]))
    other = _match(facts, tensor, without)
    return (other.codes, other.scales) < (found.codes, found.scales)


def _sibling(tensor: Tensor) -> Tensor:
    return "v" if tensor == "k" else "k"


def _readings(facts: Facts, tensor: Tensor) -> Iterator[Placed]:
    """The tensor with the sibling's token pitch, then with all of its strides, where these are unlike its own.

    None where the kernel was handed a copy: what lies around that is not known.
    """
    own = received.source(facts.emission, tensor)
    if own is None:
        return
    theirs = received.strides(facts.emission, _sibling(tensor))
    tried = [own.strides]
    for strides in ((theirs[0], *own.strides[1:]), theirs):
        if strides not in tried:
            tried.append(strides)
            yield msgspec.structs.replace(own, strides=strides)


def _match(facts: Facts, tensor: Tensor, used: Placed) -> Match:
    """How a reading by other strides fares."""
    return match(facts, tensor, facts.read(used, facts.stored_tokens), facts.known(used, facts.stored_tokens))


def _explanation(facts: Facts, tensor: Tensor, found: Match, used: Placed) -> Explanation:
    declared = facts.emission.placement.get(tensor)
    sibling = _sibling(tensor)
    if used.strides[1:] == declared.strides[1:]:
        how = f"token pitch {used.strides[0]} ({sibling.upper()}'s); declared {declared.strides[0]}"
    else:
        how = f"strides {used.strides} ({sibling.upper()}'s); declared {declared.strides}"
    made = Explanation(
        fault=SiblingPitch.slug,
        tensor=tensor,
        codes=None,
        scales=None,
        others=0,
        of_others=0,
        cost=1,
        says=f"{tensor.upper()} is read with {how}",
        evidence={
            "sibling": sibling,
            "pitch_used": used.strides[0],
            "pitch_declared": declared.strides[0],
            "strides_used": list(used.strides),
            "strides_declared": list(declared.strides),
        },
    )
    # One pitch for all rows, whether some of them are right or not.
    full = explained(made, found)
    return replace(full, cost=full.cost - bool(found.against))
