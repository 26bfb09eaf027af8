"""Faults of rows that follow something else than K and V: chance, what stood in the cache, or what lies around them."""

from __future__ import annotations

import math

import numpy as np

from kvcheck.contract import Computed
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Mask, Stored
from kvcheck.diagnose.groups import encoded
from kvcheck.diagnose.moves import kept_scales, made_with_stale, moves, prefilled_scales, stale_scales
from kvcheck.diagnose.one_more import explained_by_one_more, meets_fence, wide_rows
from kvcheck.diagnose.part import KINDS, Part, part
from kvcheck.diagnose.prospect import fails
from kvcheck.diagnose.side import offsets_of
from kvcheck.emission import LAUNCHES, PREFILLS
from kvcheck.formats import bits
from kvcheck.formats.apply import apply_scale, contract_format
from kvcheck.formats.decode import decode
from kvcheck.formats.magnitude import magnitudes
from kvcheck.schema import Tensor


class Nondeterministic:
    """`nondeterministic`: equal launches leave unequal bytes, in slots that one token has for its own."""

    slug = "nondeterministic"
    forms = ("",)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether rounding by chance would show: so many scaled values lie between two codes that some go wrong."""
        return {"": sum(_luck(facts, tensor) for tensor in TENSORS) < math.log(HARDLY)}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """The wrong codes of rows that change between launches 1 and 4."""
        return _explained(facts, self.slug, "chance", "change between launches that are equal in all they are given")


class UninitialisedRead:
    """`uninitialised-read`: what stood in the cache before the launch decides what is stored."""

    slug = "uninitialised-read"
    forms = ("",)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether a scale that never falls below the one in the cache would be another than the right one."""
        return {"": any(_stale_scale_shows(facts, tensor) for tensor in TENSORS)}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """The rows that change with the prefill alone, and how many scales are the very ones that stood there."""
        words = "follow what stood in the cache before the launch"
        return _explained(facts, self.slug, "prefill", words, kept=True)


class ForeignRead:
    """`foreign-read`: memory that is nobody's, or the sibling's, decides what is stored."""

    slug = "foreign-read"
    forms = ("an amax over one element more",)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether an amax over one element behind the last head would be another in one of the launches.

        Or whether a fence would stop it there.
        """
        found = (wide_rows(before, tensor, None) for tensor in TENSORS for before in facts.launches(tensor))
        return {self.forms[0]: meets_fence(facts) or any(bool(rows.any()) for rows in found)}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """Rows whose scale is that of one element more; else those that change with poison, or with the sibling."""
        wide = [explained_by_one_more(facts, tensor) for tensor in TENSORS]
        made = [each for each in wide if each is not None]
        told = {each.tensor for each in made}
        followed = _explained(facts, self.slug, "poison", "follow what lies in the gaps and guards around K and V")
        crossed = _explained(facts, self.slug, "sibling", "follow the values of the sibling")
        return made + [each for each in (*followed, *crossed) if each.tensor not in told]


#: How likely a kernel that rounds by chance may be to get through the launches of a case, where it is said to fail.
HARDLY = 1e-6


def _explained(facts: Facts, slug: str, what: str, words: str, *, kept: bool = False) -> list[Explanation]:
    """One explanation for each tensor with bytes that change with `what`, a field of `Moves`."""
    found = []
    for tensor in TENSORS:
        masks: dict[str, Mask | None] = {"codes": None, "scales": None}
        count, rows = 0, np.zeros(len(facts.stored_tokens), np.bool_)
        compared = facts.compared
        right = 0
        for kind in KINDS:
            held, moved = part(facts, tensor, kind), moves(facts, tensor, kind)
            if held is None or moved is None:
                continue
            changing: Mask = getattr(moved, what) & compared[:, None, None]
            count += int(changing.sum())
            right += int((changing & ~held.wrong & ~held.lost).sum())
            rows = np.asarray(rows | changing.any(axis=(1, 2)))
            # A code of a unit that changes is as foreign as its neighbours, whether it happens to change or not.
            wrong = held.wrong & np.asarray(changing.any(axis=2))[:, :, None]
            if kept and kind == "codes":
                wrong = wrong | (held.wrong & made_with_stale(facts, tensor)[:, :, None])
            if what == "chance":
                wrong = held.wrong & np.asarray(rows)[:, None, None]
            masks[kind] = wrong[compared] if kind == "codes" else _scales(held, wrong)[compared]
        if kept and facts.emission.placement.find(f"{tensor}_scales") is not None:
            right += 4 * int(stale_scales(facts, tensor).sum())
        if count:
            says = f"{count} bytes of {tensor.upper()}'s rows {words}, in {int(rows.sum())} of {len(rows)} tokens"
            stale = kept_scales(facts, tensor, 0) if kept else 0
            if stale:
                says += f"; {stale} scales are the ones that stood there"
            tokens = facts.stored_tokens[rows].tolist()
            evidence: dict[str, int | float | str | list[int]] = {"bytes": count, "tokens": tokens}
            found.append(Explanation(slug, tensor, masks["codes"], masks["scales"], right, right, 6, says, evidence))
    return found


def _scales(held: Part, wrong: Mask) -> Mask:
    """A mask of scale bytes `[n, units, item]` as one of scales `[n, *groups]`."""
    assert held.side.right_scales is not None
    return np.asarray(wrong.any(axis=2)).reshape(held.side.right_scales.shape)


def _stale_scale_shows(facts: Facts, tensor: Tensor) -> bool:
    placed, rule = facts.emission.placement.find(f"{tensor}_scales"), facts.contract.scale
    if placed is None or not isinstance(rule, Computed) or rule.dtype == "ue8m0" or not len(facts.tokens):
        return False
    own, due = facts.own(tensor), facts.own(tensor).stored.scale
    assert due is not None
    at, alone = offsets_of(placed, facts.slots[facts.compared]), facts.alone[facts.compared]
    for letter in PREFILLS:
        before = prefilled_scales(facts, placed, at, letter).reshape(due.shape)
        with np.errstate(invalid="ignore"):
            larger = before > due
        if larger[alone].any():
            return True
        if larger.any():
            # In a slot that tokens share it may be the scale of another of them; codes by it are not that one's.
            scale = np.where(larger, before, due)
            scaled = apply_scale(facts.contract, own.x, own.elements(scale))
            if fails(facts, tensor, Stored(encoded(facts, scaled), scale)):
                return True
    return False


def _luck(facts: Facts, tensor: Tensor) -> float:
    """The logarithm of how likely all launches are to round all values to nearest, each up as often as it lies high.

    Equal values are one, as they may share their chance, and values of subnormal codes are left out.
    """
    own, number_format = facts.own(tensor), contract_format(facts.contract)
    scaled = np.unique(own.scaled(own.stored)[0])
    size = np.abs(scaled[np.isfinite(scaled)]).astype(np.float64)
    low = magnitudes(bits.encode(size.astype(np.float32), number_format, rounding="rtz"), number_format)
    least = 0 if number_format.integer else 1 << number_format.mantissa_bits
    inside = (low >= least) & (low < number_format.largest)
    size, low = size[inside], low[inside]
    below, above = (decode((low + step).astype(np.uint8), number_format).astype(np.float64) for step in (0, 1))
    part = (size - below) / (above - below)
    return len(LAUNCHES) * float(np.log1p(-np.minimum(part, 1 - part)).sum())
