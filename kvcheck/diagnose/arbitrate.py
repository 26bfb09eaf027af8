"""Explanations → diagnoses: the fewest and simplest faults that together give the wrong bytes.

The explanation that gives most bytes comes first, then the one that gives most of what is left. One that only gives
what others have given already is dropped. What nothing gives is said with the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from kvcheck.diagnose.explanation import SAYS_ONLY, Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Mask
from kvcheck.diagnose.judged import as_judged, judged
from kvcheck.diagnose.match import on_groups
from kvcheck.schema import Diagnosis

#: What an explanation explains, in the words of its sentence.
CODES, SCALES, OTHERS = "codes", "scales", "bytes"


class _Left:
    """The wrong bytes that nothing explains yet: codes and scales of K and V by place, others by count."""

    def __init__(self, facts: Facts, others: int) -> None:
        self.codes: dict[str, Mask] = {}
        self.scales: dict[str, Mask] = {}
        for tensor in TENSORS:
            found = judged(facts, tensor)
            self.codes[tensor] = ~found.codes
            self.scales[tensor] = np.zeros(0, np.bool_) if found.scales is None else ~found.scales
        self.others = others

    def gain(self, made: Explanation) -> int:
        """How many of them an explanation gives."""
        return sum(
            int((mask & left[made.tensor]).sum())
            for mask, left in ((made.codes, self.codes), (made.scales, self.scales))
            if mask is not None and made.tensor in left
        ) + min(made.others, self.others)

    def open(self, made: Explanation) -> int:
        """How many of them stand in rows that it takes from memory whose bytes are not known."""
        return sum(int((mask & left[made.tensor]).sum()) for mask, left in self._unknown(made))

    def stored(self, made: Explanation) -> int:
        """How many codes and scales of launch 1 among them it gives."""
        return self.gain(replace(made, others=0))

    def same(self, one: Explanation, other: Explanation) -> bool:
        """Whether two explanations of one tensor give the same of them, and not only by their number."""
        for first, second, left in ((one.codes, other.codes, self.codes), (one.scales, other.scales, self.scales)):
            wrong = left.get(one.tensor)
            if wrong is None:
                continue
            given = [np.zeros_like(wrong) if mask is None else mask & wrong for mask in (first, second)]
            if (given[0] != given[1]).any():
                return False
        return min(one.others, self.others) == min(other.others, self.others) and self.gain(one) > 0

    def take(self, made: Explanation) -> None:
        """Leave out what an explanation gives, and what it knows to come from where nothing is known."""
        for mask, left in ((made.codes, self.codes), (made.scales, self.scales)):
            if mask is not None and made.tensor in left:
                left[made.tensor] = left[made.tensor] & ~mask
        for mask, left in self._unknown(made):
            left[made.tensor] = left[made.tensor] & ~mask
        self.others -= min(made.others, self.others)

    def _unknown(self, made: Explanation) -> list[tuple[Mask, dict[str, Mask]]]:
        """The codes and scales of such rows, each with what is left of its kind."""
        if made.unknown is None:
            return []
        codes = np.broadcast_to(made.unknown[:, :, None], self.codes[made.tensor].shape)
        return [(codes, self.codes), (on_groups(made.unknown, self.scales[made.tensor]), self.scales)]

    def wrong(self) -> int:
        """How many codes and scales are left."""
        return sum(int(mask.sum()) for left in (self.codes, self.scales) for mask in left.values())


def arbitrate(facts: Facts, made: Sequence[Explanation]) -> tuple[Diagnosis, ...]:
    """The diagnoses, best first.

    Of explanations that give equally much, one whose fault is met in the other tensor too goes first, since one cause
    of both is less than two; then the cheapest, then the first.
    """
    made = [as_judged(facts, each) for each in made]
    met = {(each.fault, each.tensor) for each in made}
    left = _Left(facts, max((each.of_others for each in made), default=0))
    chosen: list[Explanation] = []
    rest = list(made)
    while rest:
        rest = [each for each in rest if not (_follows(each, chosen) and not left.stored(each))]
        if not rest:
            break
        best = max(rest, key=lambda each: _worth(left, each, rest, met))
        if not left.gain(best):
            break
        chosen += [_with_alike(best, rest, left), *best.beside]
        for each in (best, *best.beside):
            left.take(each)
        rest = [each for each in rest if each is not best]
    found = [_diagnosis(facts, each) for each in chosen]
    return tuple(_with_unexplained(found, left.wrong()))


def _worth(
    left: _Left, made: Explanation, rest: Sequence[Explanation], met: AbstractSet[tuple[str, str]]
) -> tuple[bool, int, int, int, bool, int]:
    """What is chosen by, the largest first."""
    alone = gain = left.gain(made)
    if made.of_writes and gain:
        # Codes and scales that stand elsewhere are one account, where rows from elsewhere would be another.
        both = [each for each in rest if each.of_writes and each.tensor == made.tensor and each is not made]
        gain += max(map(left.gain, both), default=0)
    elsewhere = any((made.fault, tensor) in met for tensor in TENSORS if tensor != made.tensor)
    return bool(gain) and made.cost < SAYS_ONLY, gain, alone, left.open(made), elsewhere, -made.cost


def _with_alike(best: Explanation, rest: Sequence[Explanation], left: _Left) -> Explanation:
    """The explanation with the faults that give the very same bytes: this case cannot tell them apart.

    Those that assume more than one thing beyond it are left out: they give almost any bytes.
    """
    known = str(best.evidence.get("alike", ""))
    same = known.split(", ") if known else []
    same += [
        each.fault
        for each in rest
        if each.cost < min(SAYS_ONLY, best.cost + 2)
        and each.fault != best.fault
        and each.tensor == best.tensor
        and left.same(each, best)
    ]
    if not same or best.cost >= SAYS_ONLY:
        return best
    return replace(best, evidence={**best.evidence, "alike": ", ".join(dict.fromkeys(same))})


def _follows(made: Explanation, chosen: Sequence[Explanation]) -> bool:
    """Whether an explanation only says what follows from another: who reads elsewhere depends on what lies there."""
    return made.cost >= SAYS_ONLY and any(each.tensor == made.tensor for each in chosen)


def _diagnosis(facts: Facts, made: Explanation) -> Diagnosis:
    explains, of, kind = _counts(facts, made)
    alike = str(made.evidence.get("alike", "")).replace(", ", " or ")
    apart = f"; this case cannot tell it from {alike}" if alike else ""
    says = f"{made.says}; explains {explains} of {of} wrong {kind}{apart}"
    return Diagnosis(made.fault, made.tensor, explains, of, says, made.evidence)


def _counts(facts: Facts, made: Explanation) -> tuple[int, int, str]:
    """What an explanation explains, of how many, and of what: codes where it gives any, else scales, else others."""
    right = judged(facts, "v" if made.tensor == "v" else "k")
    if made.codes is not None and made.codes.any():
        return int(made.codes.sum()), int((~right.codes).sum()), CODES
    if made.scales is not None and made.scales.any() and right.scales is not None:
        return int(made.scales.sum()), int((~right.scales).sum()), SCALES
    return made.others, made.of_others, OTHERS


def _with_unexplained(found: list[Diagnosis], left: int) -> list[Diagnosis]:
    """The diagnoses, the last of which says how many wrong codes and scales none of them explains."""
    if not found or not left:
        return found
    last = found[-1]
    says = f"{last.says}; {left} wrong codes and scales stay unexplained"
    evidence = {**last.evidence, "unexplained": left}
    return [*found[:-1], Diagnosis(last.fault, last.tensor, last.explains, last.of, says, evidence)]
