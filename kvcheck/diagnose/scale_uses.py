"""Right scales that are kept or used otherwise than they should be: one of the two shows, the other is as it is due."""

from __future__ import annotations

from typing import Literal

import numpy as np

from kvcheck.contract import Computed, Given
from kvcheck.diagnose.facts import Facts, Floats, Stored
from kvcheck.diagnose.groups import ULP, legal_by
from kvcheck.diagnose.scale_fault import Form, Made
from kvcheck.diagnose.scale_rules import UNDECLARED_ULPS, applied, computed, grouped
from kvcheck.formats.apply import apply_scale, multiplies
from kvcheck.formats.cast import round_to
from kvcheck.formats.scale import bounded, element_scales, largest_magnitudes, right_scales
from kvcheck.schema import Tensor

#: Rows that an order must hold in, and places that a sentence names of it.
ORDERED, NAMED = 2, 4
#: Scales of a row that have an order, at least and at most, and rows that it is recovered from.
LEAST, MOST, ROWS = 3, 512, 64

Narrow = Literal["fp16", "bf16"]
Evidence = dict[str, int | float | str | list[int]]


def unapplied(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The values as they are."""
    x = facts.values(tensor)
    return _used(facts, tensor, emitted, x, "those of the values as they are, the scale not applied")


def inverted(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Multiplied where to divide, or the reverse."""
    x, scale = facts.values(tensor), _elements(facts, tensor, emitted)
    if scale is None:
        return None
    with np.errstate(all="ignore"):
        scaled = x / scale if multiplies(facts.contract) else x * scale
    return _used(facts, tensor, emitted, scaled, "those of the values with the scale applied the wrong way round")


def twice(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Applied, and applied again."""
    x, scale = facts.values(tensor), _elements(facts, tensor, emitted)
    if scale is None:
        return None
    with np.errstate(all="ignore"):
        scaled = x * scale * scale if multiplies(facts.contract) else x / scale / scale
    return _used(facts, tensor, emitted, scaled, "those of the values with the scale applied twice")


def reciprocal(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """A product with the scale's reciprocal where the quotient is due."""
    x, scale = facts.values(tensor), _elements(facts, tensor, emitted)
    if scale is None or multiplies(facts.contract):
        return None
    with np.errstate(all="ignore"):
        scaled = x * (np.float32(1) / scale)
    return _used(facts, tensor, emitted, scaled, "those of the values times the scale's reciprocal")


def swapped(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """K's given scale for V's, or the reverse."""
    other: Tensor = "v" if tensor == "k" else "k"
    if not isinstance(facts.contract.scale, Given) or emitted.scale is not None:
        return None
    scale = facts.given(other)
    if scale.shape != facts.given(tensor).shape:
        return None
    scaled = applied(facts, facts.values(tensor), scale)
    return Made(None, f"codes are those of {other.upper()}'s scale", scaled=scaled)


def rounded_use(dtype: Narrow) -> Form:
    """Codes of the scale as a narrower number."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        x, scale = facts.values(tensor), _elements(facts, tensor, emitted)
        if scale is None:
            return None
        scaled = apply_scale(facts.contract, x, round_to(np.ascontiguousarray(scale), dtype))
        return _used(facts, tensor, emitted, scaled, f"those of the scale rounded to {dtype}")

    return form


def rounded_reciprocal(dtype: Narrow) -> Form:
    """Codes of the scale's reciprocal as a narrower number."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        x, scale = facts.values(tensor), _elements(facts, tensor, emitted)
        if scale is None or multiplies(facts.contract):
            return None
        with np.errstate(all="ignore"):
            scaled = x * round_to(np.asarray(np.float32(1) / scale, np.float32), dtype)
        return _used(facts, tensor, emitted, scaled, f"those of the scale's reciprocal rounded to {dtype}")

    return form


def rounded_kept(dtype: Narrow, *, used: bool) -> Form:
    """Scales as narrower numbers, from then on or in the cache alone."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        rule = computed(facts, emitted)
        if rule is None or emitted.scale is None or rule.dtype == dtype:
            return None
        due = grouped(right_scales(rule, facts.values(tensor)))
        kept = np.asarray(round_to(due, dtype), np.float32)
        if rule.declared_ulps and kept.shape == emitted.scale.shape:
            # What was rounded may have been off by some ulps.
            ends = (due * np.float32(1 + way * rule.declared_ulps * ULP) for way in (-1, 1))
            for end in ends:
                other = np.asarray(round_to(np.asarray(end, np.float32), dtype), np.float32)
                kept = np.where(other == emitted.scale, other, kept)
        which = "the rounded ones" if used else "those before they were rounded"
        says = f"scales are rounded to {dtype} when they are kept, and its codes are those of {which}"
        scaled = applied(facts, facts.values(tensor), kept if used else due)
        return Made(kept, says, {"dtype": dtype}, scaled=scaled)

    return form


def rounded_source(dtype: Narrow) -> Form:
    """Scales and codes of the values as narrower numbers."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        rule, x = facts.contract.scale, facts.values(tensor)
        narrow = np.asarray(round_to(x, dtype), np.float32)
        if (narrow.view(np.uint32) == x.view(np.uint32)).all():
            return None
        says = f"values are rounded to {dtype} before they are scaled"
        if isinstance(rule, Computed) and emitted.scale is not None:
            scale = grouped(right_scales(rule, narrow))
            used = emitted.scale if emitted.scale.shape == scale.shape else scale
            return Made(scale, says, {"dtype": dtype}, rule, narrow, scaled=applied(facts, narrow, used))
        scaled = narrow if rule is None else applied(facts, narrow, facts.given(tensor))
        return Made(None, says, {"dtype": dtype}, scaled=scaled)

    return form


def rounded_values(dtype: Narrow) -> Form:
    """Right scales, and codes of the values as narrower numbers."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        due, x = _due_scales(facts, tensor, emitted), facts.values(tensor)
        narrow = np.asarray(round_to(x, dtype), np.float32)
        if due is None or (narrow.view(np.uint32) == x.view(np.uint32)).all():
            return None
        says = f"values are rounded to {dtype} after their scales are made"
        return Made(due, says, {"dtype": dtype}, scaled=applied(facts, narrow, due))

    return form


def kept_of_another_row(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Scales of another token or head kept, and codes by those that are due."""
    due = None if emitted.scale is None else facts.own(tensor).scale
    right = facts.right(tensor).scales
    if due is None or emitted.scale is None or right is None or due.shape != emitted.scale.shape or not len(due):
        return None
    count = np.arange(len(due))
    maps = [
        ("of the token before", np.roll(due, 1, axis=0)),
        ("of the token behind", np.roll(due, -1, axis=0)),
        ("of the first token", due[count * 0]),
        ("of the last token", due[count * 0 + len(count) - 1]),
    ]
    if due.ndim > 1 and due.shape[1] > 1:
        maps += [("of the head before", np.roll(due, 1, axis=1)), ("of the head behind", np.roll(due, -1, axis=1))]
        maps.append(("of the heads in reverse", due[:, ::-1]))
    for words, kept in maps:
        with np.errstate(invalid="ignore"):
            same = np.abs(kept - emitted.scale) <= np.abs(kept) * np.float32(UNDECLARED_ULPS * ULP)
        if same.all():
            return _kept(facts, tensor, due, np.asarray(kept), f"those {words}", {})
    return None


def kept_in_another_order(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Right scales whose blocks, or heads, stand in another order: that of all rows, recovered from them."""
    due = None if emitted.scale is None else facts.own(tensor).scale
    if due is None or emitted.scale is None or due.shape != emitted.scale.shape or due.ndim < 2:
        return None
    if not LEAST <= due.shape[-1] <= MOST:
        return None
    kept = emitted.scale.reshape(-1, due.shape[-1])[:ROWS]
    one = due.reshape(-1, due.shape[-1])[:ROWS]
    with np.errstate(invalid="ignore"):
        near = np.abs(kept[:, :, None] - one[:, None, :]) <= one[:, None, :] * np.float32(UNDECLARED_ULPS * ULP)
    same = near.all(axis=0)
    if len(kept) < ORDERED or not (same.sum(axis=1) == 1).all() or not (same.sum(axis=0) == 1).all():
        return None
    order = same.argmax(axis=1)
    of = "blocks" if due.ndim == 3 else "heads"
    named = ", ".join(f"{there} holds {held}'s" for there, held in enumerate(order[:NAMED].tolist()))
    said = "in reverse" if (order == np.arange(len(order))[::-1]).all() else f"in another order: {named} and so on"
    return _kept(facts, tensor, due, due[..., order], f"those of the row's {of} {said}", {"order": order.tolist()})


def kept_inverted(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The reciprocal kept, and right codes beside it."""
    due = _due_scales(facts, tensor, emitted)
    if due is None:
        return None
    with np.errstate(all="ignore"):
        kept = np.asarray(np.float32(1) / due, np.float32)
    return _kept(facts, tensor, due, kept, "kept as their reciprocals", {})


def kept_amax(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The amax kept for the scale."""
    rule, due = computed(facts, emitted), _due_scales(facts, tensor, emitted)
    if rule is None or due is None:
        return None
    amax = grouped(bounded(rule, largest_magnitudes(rule, facts.values(tensor))))
    return _kept(facts, tensor, due, amax, "not kept, but each amax where its scale belongs", {})


def kept_times(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The scale times a constant kept, recovered from the scales."""
    due = _due_scales(facts, tensor, emitted)
    if due is None or emitted.scale is None or due.shape != emitted.scale.shape:
        return None
    some = np.isfinite(due) & np.isfinite(emitted.scale) & (due > 0) & (emitted.scale > 0)
    if len(np.unique(due[some])) < 2:
        return None
    factor = float(np.median(emitted.scale[some].astype(np.float64) / due[some]))
    kept = np.asarray(due * np.float32(factor), np.float32)
    return _kept(facts, tensor, due, kept, f"kept {factor:.7g} times as large as due", {"factor": factor})


def other_maximum_used(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Right scales kept, and codes of those of another format's largest value."""
    rule, x = facts.contract.scale, facts.values(tensor)
    scale = _elements(facts, tensor, emitted)
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
                _due_scales(facts, tensor, emitted), says, {"maximum": limit}, scaled=scaled, error=UNDECLARED_ULPS
            )
    return None


def of_another_row(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Codes by the scale of another token, another head or the sibling, where all are kept as they are due."""
    x = facts.values(tensor)
    for words, scale in _others(facts, tensor, emitted):
        scaled = applied(facts, x, scale)
        if legal_by(facts, scaled, emitted.codes).all():
            return _used(facts, tensor, emitted, scaled, f"those of {words}")
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
    if _due_scales(facts, tensor, emitted) is None or emitted.scale is None or not len(emitted.scale):
        return []
    scale, count = emitted.scale, np.arange(len(emitted.scale))
    found = [
        ("the scales of the token before", scale[np.maximum(count - 1, 0)]),
        ("the scales of the token behind", scale[np.minimum(count + 1, len(count) - 1)]),
        ("the first token's scales", scale[count * 0]),
        ("the last token's scales", scale[count * 0 + len(count) - 1]),
    ]
    if scale.ndim > 1 and scale.shape[1] > 1:
        found += [
            ("the scale of the head before", np.roll(scale, 1, axis=1)),
            ("the scale of the head behind", np.roll(scale, -1, axis=1)),
            ("the first head's scale", np.broadcast_to(scale[:, :1], scale.shape)),
            ("the last head's scale", np.broadcast_to(scale[:, -1:], scale.shape)),
            ("the heads' scales in reverse", scale[:, ::-1]),
        ]
    theirs = facts.emitted(_sibling(tensor)).scale
    if theirs is not None and theirs.shape == scale.shape:
        found.append((f"{_sibling(tensor).upper()}'s scales", theirs))
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


def _used(facts: Facts, tensor: Tensor, emitted: Stored, scaled: Floats, words: str) -> Made | None:
    """Right scales, and codes of values to which they are applied otherwise."""
    if _elements(facts, tensor, emitted) is None:
        return None
    scaled = np.asarray(scaled, np.float32)
    return Made(_due_scales(facts, tensor, emitted), f"codes are {words}", scaled=scaled)


def _elements(facts: Facts, tensor: Tensor, emitted: Stored) -> Floats | None:
    """The scale of every element: the emitted one where it is right, else the due one; or the given one."""
    rule, x = facts.contract.scale, facts.values(tensor)
    if isinstance(rule, Given):
        return np.asarray(element_scales(facts.contract, facts.given(tensor), x.shape))
    if rule is None:
        return None
    scale = _due_scales(facts, tensor, emitted)
    return None if scale is None else np.asarray(element_scales(facts.contract, scale, x.shape))


def _due_scales(facts: Facts, tensor: Tensor, emitted: Stored) -> Floats | None:
    """The scales that are computed by the contract: the emitted ones, where they are right."""
    rule = computed(facts, emitted)
    if rule is None or emitted.scale is None:
        return None
    own = facts.own(tensor)
    return np.where(own.legal(emitted.scale), emitted.scale, own.scale)


def _kept(
    facts: Facts,
    tensor: Tensor,
    due: Floats,
    kept: Floats,
    words: str,
    evidence: dict[str, int | float | str | list[int]],
) -> Made | None:
    """Codes of the right scales, beside other numbers where these belong; None where those are the right ones."""
    right = facts.right(tensor).scales
    if right is None or kept.shape != due.shape:
        return None
    with np.errstate(all="ignore"):
        near = np.abs(kept - due) <= np.abs(due) * np.float32(2 * UNDECLARED_ULPS * ULP)
    if near[~right].any():
        return None
    scaled = applied(facts, facts.values(tensor), due)
    says = f"scales are {words}; its codes are those of the right ones"
    return Made(kept, says, evidence, scaled=scaled, ulps=UNDECLARED_ULPS)
