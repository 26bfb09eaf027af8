"""Two causes at once: scales of an amax over other values than a row's own, which are rounded when they are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from kvcheck.contract import Computed
from kvcheck.diagnose.facts import Facts, Floats, Stored
from kvcheck.diagnose.groups import legal_by, near
from kvcheck.diagnose.narrowed import first_half
from kvcheck.diagnose.populations import every_population
from kvcheck.diagnose.scale_fault import Made
from kvcheck.diagnose.scale_rules import applied, computed
from kvcheck.formats.cast import round_to
from kvcheck.schema import Tensor

#: What is done to a scale, in words and as it is done.
Narrowing: TypeAlias = tuple[str, Callable[[Floats], Floats]]


def of_a_population_rounded(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Scales of a known population as narrower numbers, all of them; codes are theirs, or of those before."""
    rule, right = computed(facts, emitted), facts.right(tensor).scales
    if rule is None or rule.dtype != "fp32" or emitted.scale is None or right is None or right.all():
        return None
    narrows = list(_narrows(emitted.scale))
    x = facts.values(tensor)
    for made in _made(facts, tensor, emitted, rule) if narrows else ():
        assert made.scale is not None
        for words, narrow in narrows:
            kept = narrow(made.scale)
            # Scales that are narrow anyhow were not made so.
            if not _same(emitted.scale, kept) or _same(made.scale, kept):
                continue
            for which, scale in (("they", kept), ("those before", made.scale)):
                scaled = applied(facts, x, scale)
                if legal_by(facts, scaled, emitted.codes).all():
                    says = f"{made.says}, and {words} when they are kept"
                    second = f"scales are {words} when they are kept; what makes its codes are {which}"
                    return Made(kept, says, made.evidence, scaled=scaled, also=("scale-rounded", second))
    return None


def _narrows(scale: Floats) -> Iterator[Narrowing]:
    """What may have been done to scales: all of them are numbers that it leaves as they are."""
    for words, narrow in (
        ("rounded to fp16", lambda each: np.asarray(round_to(each, "fp16"), np.float32)),
        ("rounded to bf16", lambda each: np.asarray(round_to(each, "bf16"), np.float32)),
        ("cut to bf16", first_half),
    ):
        if _same(scale, narrow(scale)):
            yield words, narrow


def _same(values: Floats, due: Floats) -> bool:
    return values.shape == due.shape and bool((near(values, due, 0) | (np.isnan(values) & np.isnan(due))).all())


def _made(facts: Facts, tensor: Tensor, emitted: Stored, rule: Computed) -> Iterator[Made]:
    for form in every_population(facts, rule):
        made = form(facts, tensor, emitted)
        if made is not None and made.scale is not None:
            yield made
