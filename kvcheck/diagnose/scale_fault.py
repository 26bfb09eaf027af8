"""Faults of scales: another rule for the scale, or another use of it, held against all that a tensor stores.

A form says which scales a kernel would keep, and what it would encode. It is held against each group that has one
scale: a group is given where its scale and all of its codes are what the form leaves, within the error that the
contract declares. No group that is right may speak against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kvcheck.contract import Computed
from kvcheck.diagnose.code_fault import resting_on
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Floats, Mask, Stored
from kvcheck.diagnose.groups import by_kept_scales, encoded, kept_by, legal_by, spread, whole
from kvcheck.diagnose.match import PROOF
from kvcheck.diagnose.prospect import either, fails, fails_scales
from kvcheck.formats.apply import apply_scale, contract_format
from kvcheck.formats.magnitude import magnitudes
from kvcheck.schema import Tensor

#: What share of a tensor's wrong groups a form must give, and where only their scales are its, or say little.
SHARE, MOST = 0.5, 0.9


@dataclass(frozen=True, eq=False)
class Made:
    """What a form predicts: the kept `scale`, None of none; how a sentence says it, and what it recovered.

    With a `rule` the scales are those of `values` `[n, heads, dim]` by it, within its own error; without one they are
    `scale`, `ulps` off at most. `scaled` are the values that were encoded; where it is None codes are those of
    the kept scales. `error` is by how many ulps scaled values may be off, beyond what the contract declares. `also` is
    a second cause, its fault and its sentence, without which the first would not give them.
    """

    scale: Floats | None
    says: str
    evidence: dict[str, int | float | str | list[int]] = field(default_factory=dict)
    rule: Computed | None = None
    values: Floats | None = None
    scaled: Floats | None = None
    ulps: int = 0
    error: int = 0
    also: tuple[str, str] | None = None


#: What a kernel of this form stores for a tensor, in a case where it emitted `Stored`; None where it cannot be.
Form = Callable[[Facts, Tensor, Stored], Made | None]


class ScaleFault:
    """One fault in its forms, the first of equals being the simplest."""

    def __init__(
        self, slug: str, forms: Sequence[Form], *, usual: Mapping[str, Form] | None = None, cost: int = 1
    ) -> None:
        """`slug` names the fault; `forms` are the ways to have it.

        `usual` are those that a pass speaks of, by name: the first, where it is None. The others are named where they
        are met, but a pass does not claim that it would have shown them.
        """
        self.slug = slug
        self._forms = tuple(forms)
        self._usual = {"": self._forms[0]} if usual is None else usual
        self._cost = cost

    @property
    def forms(self) -> tuple[str, ...]:
        """The usual ones, both tensors' scales made or used by one rule."""
        return tuple(self._usual)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether a form leaves a byte in K or V that may not be; only of forms that the contract admits."""
        shown: dict[str, bool] = {}
        for name, form in self._usual.items():
            found = either(_shows(facts, tensor, form) for tensor in TENSORS)
            shown |= {} if found is None else {name: found}
        return shown

    def explanations(self, facts: Facts) -> list[Explanation]:
        """The form that gives most, for each tensor with wrong codes or scales; the first of equals."""
        return [made for tensor in TENSORS if (made := self._explanation(facts, tensor)) is not None]

    def _explanation(self, facts: Facts, tensor: Tensor) -> Explanation | None:
        if facts.all_right(tensor):
            return None
        emitted = facts.emitted(tensor)
        best: Explanation | None = None
        for form in self._forms:
            made = form(facts, tensor, emitted)
            found = None if made is None else _held(facts, tensor, emitted, made)
            if made is None or found is None:
                continue
            extra, codes, scales = found
            says = f"{tensor.upper()}'s {made.says}{_codes(made, extra)}{_resting_on(codes, scales, extra)}"
            each = Explanation(
                self.slug, tensor, codes, scales, 0, 0, self._cost + extra, says, made.evidence, of_rows=True
            )
            if made.also is not None:
                fault, second = made.also
                beside = replace(each, fault=fault, says=f"{tensor.upper()}'s {second}")
                each = replace(each, beside=(beside,))
            if not extra:
                return each
            if best is None or _gain(each) > _gain(best):
                best = each
        return best


#: What is assumed beyond a form that gives all: that it holds for a part of the groups; that it, of many forms, made
#: codes of one magnitude beside scales that are right; that codes are wrong besides.
PARTLY, ONE_OF_MANY, SCALES_ONLY = 1, 2, 3


def _codes(made: Made, extra: int) -> str:
    """What a sentence adds of the codes, where the form is one of scales."""
    if made.scaled is not None or made.scale is None:
        return ""
    return "; its codes are not all theirs" if extra == SCALES_ONLY else ", and its codes are theirs"


def _resting_on(codes: Mask, scales: Mask | None, extra: int) -> str:
    """What a sentence adds where no scale speaks for it, and few codes do or such as many causes leave."""
    if scales is not None and scales.any():
        return ""
    return ", by codes that are all of one magnitude" if extra == ONE_OF_MANY else resting_on(codes)


def _gain(made: Explanation) -> int:
    return sum(int(mask.sum()) for mask in (made.codes, made.scales) if mask is not None)


def _held(facts: Facts, tensor: Tensor, emitted: Stored, made: Made) -> tuple[int, Mask, Mask | None] | None:
    """What a form gives: its further cost, wrong codes and wrong scales; None where it is not believed."""
    right = facts.right(tensor)
    wrong = ~right.codes
    codes = (
        by_kept_scales(facts, tensor)
        if made.scaled is None
        else legal_by(facts, made.scaled, emitted.codes, made.error)
    )
    groups, fine = whole(facts, codes), whole(facts, right.codes)
    if emitted.scale is None or made.scale is None or right.scales is None:
        if emitted.scale is not None or made.scale is not None:
            return None
        found = _all_or_most(facts, _telling(facts, emitted), wrong, groups, fine, None)
        # One row of zeros is of zeros for too many reasons to name one.
        zeros = found is not None and not magnitudes(emitted.codes[found[1]], contract_format(facts.contract)).any()
        zeros = zeros and int((groups & ~fine).sum()) == 1
        return None if zeros else found
    kept = kept_by(made.rule, made.values, emitted, made.scale, made.ulps)
    if kept is None:
        return None
    telling = _telling(facts, emitted)
    found = _all_or_most(facts, telling, wrong, groups & kept, fine & right.scales, ~right.scales)
    if found is not None or made.rule is None:
        return found
    # Codes may be wrong for a reason of their own: scales tell by themselves where they are several, or most codes
    # follow them, and no right one speaks against it.
    hit = ~right.scales & kept
    theirs = spread(facts, hit, wrong.shape)
    follow = (codes & theirs).sum() >= SHARE * theirs.sum()
    told = follow or len(np.unique(emitted.scale[hit])) > 1
    if told and hit.any() and hit.sum() >= MOST * (~right.scales).sum() and not (right.scales & ~kept).any():
        given = codes & theirs if follow else spread(facts, hit & groups, wrong.shape)
        return SCALES_ONLY, np.asarray(wrong & given), hit
    return None


def _telling(facts: Facts, emitted: Stored) -> Mask:
    """Codes of groups that are not all of one magnitude: zeros and saturated values look alike whatever made them."""
    sizes = magnitudes(emitted.codes, contract_format(facts.contract))
    groups = ~whole(facts, sizes == sizes[:, :, :1])
    return spread(facts, groups, emitted.codes.shape)


def _all_or_most(
    facts: Facts, telling: Mask, wrong: Mask, fits: Mask, fine: Mask, scales: Mask | None
) -> tuple[int, Mask, Mask | None] | None:
    """What a form gives that `fits` some groups, of which some are `fine`; None where a fine one speaks against it."""
    given = fits & ~fine
    if not given.any() or (fine & ~fits).any():
        return None
    codes = np.asarray(wrong & spread(facts, given, wrong.shape))
    groups = None if scales is None else np.asarray(scales & given)
    if not (~fits & ~fine).any():
        return 0 if (codes & telling).any() or (groups is not None and groups.any()) else ONE_OF_MANY, codes, groups
    proof = int((codes & telling).sum()) + (0 if groups is None else 4 * int(groups.sum()))
    # Powers of two are so few that many a rule makes half of them.
    share = MOST if groups is not None and _coarse(facts) else SHARE
    return (PARTLY, codes, groups) if given.sum() >= share * (~fine).sum() and proof >= PROOF else None


def _coarse(facts: Facts) -> bool:
    """Whether scales are powers of two."""
    rule = facts.contract.scale
    return isinstance(rule, Computed) and (rule.dtype == "ue8m0" or rule.derive == "power_of_two")


def _shows(facts: Facts, tensor: Tensor, form: Form) -> bool | None:
    """Whether a form leaves a byte that is not right; None where the contract does not admit it."""
    own = facts.own(tensor)
    made = form(facts, tensor, own.stored)
    if made is None:
        return None
    if fails_scales(facts, tensor, made.scale):
        return True
    scaled = made.scaled
    if scaled is None:
        assert made.scale is not None
        scaled = apply_scale(facts.contract, own.x, own.elements(made.scale))
    return fails(facts, tensor, Stored(encoded(facts, scaled), made.scale))
