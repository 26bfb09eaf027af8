"""Right scales that are used otherwise than they should be: only codes show it."""

from __future__ import annotations

import numpy as np

from kvcheck.contract import Computed, Given
from kvcheck.diagnose.facts import Facts, Floats, Stored
from kvcheck.diagnose.groups import legal_by
from kvcheck.diagnose.scale_fault import Form, Made
from kvcheck.diagnose.scale_rules import UNDECLARED_ULPS, applied, applied_elements, computed
from kvcheck.diagnose.turns import turns
from kvcheck.formats.apply import multiplies
from kvcheck.formats.scale import element_scales
from kvcheck.schema import Tensor

#: The scales of the tokens beside, and how many tokens there must be for one at an end to be left out.
BEFORE, BEHIND, ENDED = "the scales of the token before", "the scales of the token behind", 3
#: By how much an exponent may be off.
POWERS = (1, -1, 2, -2, 3, -3, 4, -4, 7, -7, 8, -8)
#: Tokens that a program may take together.
TOGETHER = (2, 4, 8)
#: Heads that a sentence names of an order without a name.
NAMED = 4


def unapplied(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The values as they are."""
    x = facts.values(tensor)
    return codes_of(facts, tensor, emitted, x, "those of the values as they are, the scale not applied")


def inverted(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Multiplied where to divide, or the reverse."""
    x, scale = facts.values(tensor), elements(facts, tensor, emitted)
    if scale is None:
        return None
    with np.errstate(all="ignore"):
        scaled = x / scale if multiplies(facts.contract) else x * scale
    return codes_of(facts, tensor, emitted, scaled, "those of the values with the scale applied the wrong way round")


def twice(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Applied, and applied again."""
    x, scale = facts.values(tensor), elements(facts, tensor, emitted)
    if scale is None:
        return None
    with np.errstate(all="ignore"):
        scaled = x * scale * scale if multiplies(facts.contract) else x / scale / scale
    return codes_of(facts, tensor, emitted, scaled, "those of the values with the scale applied twice")


def times_power(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The scale times a power of two, recovered from the codes: an exponent that is off."""
    x, scale = facts.values(tensor), elements(facts, tensor, emitted)
    if scale is None:
        return None
    for power in POWERS:
        factor = np.float32(2.0**power)
        with np.errstate(all="ignore"):
            scaled = applied_elements(facts, x, np.asarray(scale * factor, np.float32))
        if legal_by(facts, scaled, emitted.codes).all():
            return codes_of(facts, tensor, emitted, scaled, f"those of the values with {factor:g} times the scale")
    return None


def reciprocal(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """A product with the scale's reciprocal where the quotient is due."""
    x, scale = facts.values(tensor), elements(facts, tensor, emitted)
    if scale is None or multiplies(facts.contract):
        return None
    with np.errstate(all="ignore"):
        scaled = x * (np.float32(1) / scale)
    return codes_of(facts, tensor, emitted, scaled, "those of the values times the scale's reciprocal")


def swapped(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """K's given scale for V's, or the reverse."""
    other = _sibling(tensor)
    if not isinstance(facts.contract.scale, Given) or emitted.scale is not None:
        return None
    scale = facts.given(other)
    if scale.shape != facts.given(tensor).shape:
        return None
    scaled = applied(facts, facts.values(tensor), scale)
    return Made(None, f"codes are those of {other.upper()}'s scale", scaled=scaled)


def by_the_siblings(tensor: Tensor) -> Form:
    """`swapped_computed` of K or of V alone: a kernel may have it of one of them."""
    return lambda facts, other, emitted: swapped_computed(facts, other, emitted) if other == tensor else None


def swapped_computed(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """K's computed scales for V's codes, or the reverse, where all are kept as they are due."""
    other, own = _sibling(tensor), due_scales(facts, tensor, emitted)
    # Beside what a right kernel would store stands what one would.
    theirs = facts.own(other).stored if emitted is facts.own(tensor).stored else facts.emitted(other)
    scale = due_scales(facts, other, theirs)
    if own is None or scale is None or scale.shape != own.shape:
        return None
    scaled = applied(facts, facts.values(tensor), scale)
    return codes_of(facts, tensor, emitted, scaled, f"those of {other.upper()}'s scales")


def other_maximum_used(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Right scales kept, and codes of those of another format's largest value."""
    rule, x = facts.contract.scale, facts.values(tensor)
    scale = elements(facts, tensor, emitted)
    if scale is None or facts.contract.scale is None:
        return None
    due = rule.maximum if isinstance(rule, Computed) else 448.0
    for limit in (240.0, 448.0, 224.0, 256.0, 127.0, 128.0, 57344.0, 2 * due, due / 2):
        with np.errstate(all="ignore"):
            scaled = x * scale if multiplies(facts.contract) else x / scale
            scaled = np.asarray(scaled * np.float32(limit / due), np.float32)
        if limit != due and legal_by(facts, scaled, emitted.codes, UNDECLARED_ULPS).all():
            says = f"codes are those of scales of {limit:g} for the largest value, where {due:g} is due and kept"
            return Made(
                due_scales(facts, tensor, emitted), says, {"maximum": limit}, scaled=scaled, error=UNDECLARED_ULPS
            )
    return None


def of_another_row(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Codes by the scale of another token, another head or the sibling, where all are kept as they are due."""
    x = facts.values(tensor)
    for words, scale in _others(facts, tensor, emitted):
        scaled = applied(facts, x, scale)
        if legal_by(facts, scaled, emitted.codes)[_inner(words, len(x))].all():
            return codes_of(facts, tensor, emitted, scaled, f"those of {words}")
    return None


def _inner(words: str, count: int) -> slice:
    """The rows, of `count`, that have another one on the side that is meant: what the end has is not known."""
    if count < ENDED:
        return slice(None)
    return {BEFORE: slice(1, None), BEHIND: slice(None, -1)}.get(words, slice(None))


def of_the_row_before(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Codes by the scale of the row before, of rows that programs take in turns: each has what it used last.

    What a program's first row has is not known.
    """
    x, scale = facts.values(tensor), emitted.scale
    if scale is None or scale.ndim != 2 or scale.shape != x.shape[:2] or not facts.compared.all():
        return None
    due = due_scales(facts, tensor, emitted)
    if due is None:
        return None
    rows = facts.tokens[:, None] * x.shape[1] + np.arange(x.shape[1])
    for named, apart in turns(x.shape[1]):
        before = scale.copy()
        known = np.zeros(scale.shape, np.bool_)
        for turn in range(apart):
            mine = rows % apart == turn
            own = scale[mine]
            before[mine] = np.concatenate((own[:1], own[:-1]))
            known[mine] = np.arange(own.size) > 0
        scaled = applied(facts, x, before)
        fits = legal_by(facts, scaled, emitted.codes).all(axis=2)
        if known.any() and (fits | ~known).all():
            return codes_of(facts, tensor, emitted, scaled, f"those of the scale of the row before{named}")
    return None


def of_other_heads(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Codes by given scales of other heads, in an order recovered from them: one scale for all codes of a head.

    A head's own comes first, then the next one's behind: of heads whose scales are equal the nearest is named.
    """
    rule = facts.contract.scale
    if not isinstance(rule, Given) or rule.granularity != "head":
        return None
    scale, x = facts.given(tensor), facts.values(tensor)
    heads = np.arange(len(scale))
    by = [applied(facts, x, np.roll(scale, -ahead)) for ahead in heads]
    holds = np.array([legal_by(facts, scaled, emitted.codes).all(axis=(0, 2)) for scaled in by])
    order = (heads + holds.argmax(axis=0)) % len(heads)
    moved = np.flatnonzero(order != heads)
    if not holds.any(axis=0).all() or not len(moved):
        return None
    named = ", ".join(f"head {head} has {order[head]}'s" for head in moved[:NAMED].tolist())
    says = f"codes are those of other heads' scales: {named}{' and so on' if len(moved) > NAMED else ''}"
    return Made(None, says, {"order": order.tolist()}, scaled=applied(facts, x, scale[order]))


def _others(facts: Facts, tensor: Tensor, emitted: Stored) -> list[tuple[str, Floats]]:
    """The scales that a kernel may take for a row's own, of other rows."""
    if isinstance(facts.contract.scale, Given):
        return _other_given(facts, tensor) if facts.contract.scale.granularity == "head" else []
    if due_scales(facts, tensor, emitted) is None or emitted.scale is None or not len(emitted.scale):
        return []
    scale, count = emitted.scale, np.arange(len(emitted.scale))
    found = [
        (BEFORE, scale[np.maximum(count - 1, 0)]),
        (BEHIND, scale[np.minimum(count + 1, len(count) - 1)]),
        ("the first token's scales", scale[count * 0]),
        ("the last token's scales", scale[count * 0 + len(count) - 1]),
    ]
    for size in TOGETHER:
        # Where that one is not stored, it is the first that is: nothing says what the others have.
        first = np.searchsorted(facts.tokens, facts.tokens // size * size)
        found.append((f"the scales of the first of every {size} tokens", scale[first]))
    if scale.ndim > 1 and scale.shape[1] > 1:
        found += [
            ("the scale of the head before", np.roll(scale, 1, axis=1)),
            ("the scale of the head behind", np.roll(scale, -1, axis=1)),
            ("the first head's scale", np.broadcast_to(scale[:, :1], scale.shape)),
            ("the last head's scale", np.broadcast_to(scale[:, -1:], scale.shape)),
            ("the heads' scales in reverse", scale[:, ::-1]),
        ]
    if scale.ndim > 2 and scale.shape[2] > 1:
        found += [
            ("the scale of the block before", np.roll(scale, 1, axis=2)),
            ("the scale of the block behind", np.roll(scale, -1, axis=2)),
            ("the head's first block's scale", np.broadcast_to(scale[:, :, :1], scale.shape)),
            ("the head's last block's scale", np.broadcast_to(scale[:, :, -1:], scale.shape)),
        ]
    return found


def _other_given(facts: Facts, tensor: Tensor) -> list[tuple[str, Floats]]:
    """Those of other heads, and of the sibling's, where one is given for each head."""
    scale, theirs = facts.given(tensor), facts.given(_sibling(tensor))
    head = np.arange(len(scale))
    maps = [
        ("the scale of the head behind", np.roll(head, -1)),
        ("the scale of the head before", np.roll(head, 1)),
        ("the first head's scale", head * 0),
        ("the last head's scale", head * 0 + len(head) - 1),
        ("the heads' scales in reverse", head[::-1]),
    ]
    for size in range(2, len(head)):
        maps += [(f"the scale of head h // {size}", head // size), (f"the scale of head h % {size}", head % size)]
    other = f"{_sibling(tensor).upper()}'s, by "
    siblings = [(other + words, theirs[index]) for words, index in maps] if len(theirs) == len(scale) else []
    return [(words, scale[index]) for words, index in maps] + siblings


def _sibling(tensor: Tensor) -> Tensor:
    return "v" if tensor == "k" else "k"


def codes_of(facts: Facts, tensor: Tensor, emitted: Stored, scaled: Floats, words: str) -> Made | None:
    """Right scales, and codes of values to which they are applied otherwise."""
    if elements(facts, tensor, emitted) is None:
        return None
    scaled = np.asarray(scaled, np.float32)
    return Made(due_scales(facts, tensor, emitted), f"codes are {words}", scaled=scaled)


def elements(facts: Facts, tensor: Tensor, emitted: Stored) -> Floats | None:
    """The scale of every element: the emitted one where it is right, else the due one; or the given one."""
    rule, x = facts.contract.scale, facts.values(tensor)
    if isinstance(rule, Given):
        return np.asarray(element_scales(facts.contract, facts.given(tensor), x.shape))
    if rule is None:
        return None
    scale = due_scales(facts, tensor, emitted)
    return None if scale is None else np.asarray(element_scales(facts.contract, scale, x.shape))


def due_scales(facts: Facts, tensor: Tensor, emitted: Stored) -> Floats | None:
    """The scales that are computed by the contract: the emitted ones, where they are right."""
    rule = computed(facts, emitted)
    if rule is None or emitted.scale is None:
        return None
    own = facts.own(tensor)
    return np.where(own.legal(emitted.scale), emitted.scale, own.scale)
