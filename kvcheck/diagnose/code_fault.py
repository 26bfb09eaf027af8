"""Faults of codes: what an encoder makes of scaled values, held against all codes that a tensor stores.

A form predicts every code. It is believed where each row has the codes that it gives, or the right ones: a kernel may
have the fault in some heads or pages alone. Codes are judged by their own scale, first in the rows whose scale is
right, then, where those show nothing, by the emitted scales as they are.

What a form must show for it: that it gives all wrong codes that it speaks of, and half of all; that it takes no right
code for a wrong one in the rows that it gives, and that chance is excluded where it does so in others; and, where it
recovered a number from the wrong codes, more of them than fit any number. Equal values get equal codes whatever the
encoder is, so they count once. A sentence that rests on a few codes alone says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Bytes, Facts, Floats, Mask, Stored
from kvcheck.diagnose.groups import ULP, encoded
from kvcheck.diagnose.match import PROOF, SHARE
from kvcheck.diagnose.prospect import either, fails
from kvcheck.formats.apply import apply_scale, contract_format
from kvcheck.formats.scale import element_scales
from kvcheck.formats.spec import Format
from kvcheck.schema import Tensor


@dataclass(frozen=True, eq=False)
class Seen:
    """What an encoder got and left: all `[n, heads, dim]`.

    `scaled` are the values it had to encode, `right` their codes by the contract, `emitted` those that are stored,
    `wrong` those of them that may not be, `known` where the scale says enough to tell. `of` counts all codes that are
    wrong, known or not.
    """

    facts: Facts
    tensor: Tensor
    scaled: Floats
    right: Bytes
    emitted: Bytes
    wrong: Mask
    known: Mask
    of: int = 0

    @cached_property
    def format(self) -> Format:
        """The contract's number format."""
        return contract_format(self.facts.contract)

    @cached_property
    def negative(self) -> Mask:
        """Where a scaled value has a minus sign."""
        return np.signbit(self.scaled)

    @cached_property
    def off(self) -> tuple[Seen, ...]:
        """The same with all scaled values off by the error that the contract declares, either way; none without one."""
        ulps = self.facts.contract.declared_ulps
        factors = (np.float32(1 + way * ulps * ULP) for way in (-1, 1)) if ulps else ()
        with np.errstate(all="ignore"):
            values = [np.asarray(self.scaled * factor, np.float32) for factor in factors]
        return tuple(replace(self, scaled=x, right=encoded(self.facts, x)) for x in values)


@dataclass(frozen=True, eq=False)
class Coded:
    """What a form predicts: `codes` `[n, heads, dim]`, how a sentence says it, and what it recovered from the bytes.

    `free` `[n, heads, dim]` marks codes of which it says nothing. `needs` is how many wrong codes, of unlike values,
    make it credible, `kinds` how many unlike codes. `cost` is what it assumes beyond its fault's other forms.
    `by_value` says that equal values get equal codes.
    """

    codes: Bytes
    says: str
    evidence: dict[str, int | float | str | list[int]] = field(default_factory=dict)
    free: Mask | None = None
    needs: int = 1
    kinds: int = 1
    cost: int = 0
    by_value: bool = True


#: Fewer wrong codes than that may be what they are for another reason as well.
FEW = 4

#: What an encoder of this form makes of scaled values; None where it cannot be. Where no code is wrong it is the form's
#: most common case, for observability.
Form = Callable[[Seen], Coded | None]


class CodeFault:
    """One fault in its forms, the most common first; the first that fits is the one that is said."""

    def __init__(
        self,
        slug: str,
        forms: Sequence[Form],
        cost: int = 1,
        usual: Mapping[str, Sequence[Form]] | None = None,
        *,
        reads: bool = False,
    ) -> None:
        """`slug` names the fault; `cost` is that of its explanations.

        `usual` are the forms that a pass speaks of: each the first of a few that the contract admits. Without it there
        is one, of them all. `reads`: what they predict depends on the memory around K and V.
        """
        self.slug = slug
        self._forms = tuple(forms)
        self._cost = cost
        self._usual = {"": self._forms} if usual is None else usual
        self._reads = reads

    @property
    def forms(self) -> tuple[str, ...]:
        """The usual ones, both tensors' codes made by one rule."""
        return tuple(self._usual)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether a form leaves a code in K or V that may not be; only of forms that the contract admits."""
        shown: dict[str, bool] = {}
        for name, forms in self._usual.items():
            found = either(self._shows(facts, tensor, forms) for tensor in TENSORS)
            shown |= {} if found is None else {name: found}
        return shown

    def _shows(self, facts: Facts, tensor: Tensor, forms: Sequence[Form]) -> bool | None:
        """Whether the first form that the contract admits leaves a wrong code; None where it admits none."""
        due = facts.own(tensor).stored
        admitted = False
        for before in facts.launches(tensor) if self._reads else (facts,):
            right = _right(facts, tensor)
            seen = right if before is facts else replace(right, facts=before)
            coded = next((made for form in forms if (made := form(seen)) is not None), None)
            if coded is None:
                continue
            if fails(facts, tensor, Stored(coded.codes, due.scale), coded.free):
                return True
            admitted = True
        return False if admitted else None

    def explanations(self, facts: Facts) -> list[Explanation]:
        """The first form, for each tensor with wrong codes, that gives them."""
        return [made for tensor in TENSORS if (made := self._explanation(facts, tensor)) is not None]

    def _explanation(self, facts: Facts, tensor: Tensor) -> Explanation | None:
        if facts.right(tensor).codes.all():
            return None
        for seen in seen_codes(facts, tensor):
            for form in self._forms:
                coded = form(seen)
                given = None if coded is None else _given(seen, coded, form)
                if coded is None or given is None:
                    continue
                says = f"{tensor.upper()}'s codes are {coded.says}{resting_on(given)}"
                cost = self._cost + coded.cost
                return Explanation(self.slug, tensor, given, None, 0, 0, cost, says, coded.evidence, of_rows=True)
        return None


@lru_cache(maxsize=8)
def _right(facts: Facts, tensor: Tensor) -> Seen:
    """What the encoder of a right kernel gets and leaves."""
    own = facts.own(tensor)
    scaled, known = own.scaled(own.stored)
    return Seen(facts, tensor, scaled, own.stored.codes, own.stored.codes, np.zeros_like(known), known)


@lru_cache(maxsize=4)
def seen_codes(facts: Facts, tensor: Tensor) -> tuple[Seen, ...]:
    """The codes by the scales that are right, then by the emitted ones; each only where it has wrong codes."""
    return tuple(_found(facts, tensor))


def _found(facts: Facts, tensor: Tensor) -> Iterator[Seen]:
    emitted, found, x = facts.emitted(tensor), facts.right(tensor), facts.values(tensor)
    scaled, known = facts.own(tensor).scaled(emitted)
    wrong = ~found.codes & known
    if wrong.any():
        every = int((~found.codes).sum())
        yield Seen(facts, tensor, scaled, encoded(facts, scaled), emitted.codes, wrong, known, every)
    if emitted.scale is None or found.scales is None or found.scales.all():
        return
    elements = np.asarray(element_scales(facts.contract, emitted.scale, x.shape))
    scaled = apply_scale(facts.contract, x, elements)
    known = np.isfinite(elements) & (elements > 0)
    right = encoded(facts, scaled)
    wrong = (right != emitted.codes) & known & ~found.undefined
    if wrong.any():
        yield Seen(facts, tensor, scaled, right, emitted.codes, wrong, known, int(wrong.sum()))


def _given(seen: Seen, coded: Coded, form: Form) -> Mask | None:
    """The wrong codes that a prediction gives; None where it is not believed."""
    found = seen.facts.right(seen.tensor)
    free = found.undefined | ~seen.known
    free = free if coded.free is None else free | coded.free
    same = coded.codes == seen.emitted
    given = seen.wrong & ~free & same
    if not given.any() or not most(seen, given):
        return None
    for other in seen.off:
        # Under a declared error a code may be the neighbour of the one predicted.
        near = form(other)
        same = same if near is None else same | (near.codes == seen.emitted)
    fits, right = (same | free).all(axis=2), ~seen.wrong.any(axis=2)
    if not (fits | right).all():
        return None
    given = seen.wrong & ~free & same
    # Where rows are right that should not be, chance is to be excluded, and what makes one code of all.
    beside = bool((right & ~fits).any())
    needs, kinds = max(coded.needs, PROOF if beside else 1), max(coded.kinds, 2 if beside else 1)
    if witnesses(seen, given) < needs or len(np.unique(seen.emitted[given])) < kinds:
        return None
    if coded.by_value and _torn(seen, given):
        return None
    return np.asarray(given & ~found.codes)


def _torn(seen: Seen, given: Mask) -> bool:
    """Whether most values that are equal to a `given` one have a right code: no error takes one and leaves the others.

    Asked under a declared error alone: without one a form gives equal values equal codes.
    """
    if not seen.off:
        return False
    values = np.ascontiguousarray(seen.scaled).view(np.uint32)
    alike = np.isin(values, values[given]) & seen.known
    return bool(given.sum() < SHARE * alike.sum())


def most(seen: Seen, given: Mask) -> bool:
    """Whether `given` are half of the codes that are wrong, those of rows whose scale says nothing among them."""
    return bool(given.sum() >= SHARE * seen.of)


def witnesses(seen: Seen, given: Mask) -> int:
    """How many unlike values have one of the `given` codes."""
    values = np.ascontiguousarray(seen.scaled[given]).view(np.uint32)
    return len(np.unique(values))


def resting_on(given: Mask) -> str:
    """What a sentence adds where few codes are all that speaks for it."""
    count = int(given.sum())
    return f", by {count} wrong code{'s' if count > 1 else ''} alone" if count < FEW else ""
