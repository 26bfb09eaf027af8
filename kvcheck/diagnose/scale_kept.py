"""Right scales beside which other numbers are kept, or that are kept elsewhere: codes are as they are due."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kvcheck.diagnose.facts import Facts, Floats, Stored
from kvcheck.diagnose.groups import ULP, near
from kvcheck.diagnose.scale_fault import Made
from kvcheck.diagnose.scale_rules import UNDECLARED_ULPS, applied, computed, grouped
from kvcheck.diagnose.scale_uses import NAMED, due_scales
from kvcheck.formats.scale import bounded, largest_magnitudes
from kvcheck.schema import Tensor

#: By how much an exponent may be off.
NEAR = 4
#: Rows that an order must hold in.
ORDERED = 2
#: Scales of a row that have an order, at least and at most, and rows that it is recovered from.
LEAST, MOST, ROWS = 3, 512, 64


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
    for words, kept in [*maps, *_late(due, emitted.scale)]:
        same = near(emitted.scale, kept, UNDECLARED_ULPS)
        # A scale that is NaN for its row's sake is that row's wherever it is kept.
        if (same | (np.isnan(kept) & np.isnan(emitted.scale))).all():
            return _kept(facts, tensor, due, np.asarray(kept), f"those {words}", {})
    return None


def _late(due: Floats, kept: Floats) -> Iterator[tuple[str, Floats]]:
    """Scales kept one head, or one token, late: what the first has is one number, whatever it is."""
    first = np.unique(kept[:, 0] if due.ndim > 1 else kept)
    if due.ndim > 1 and due.shape[1] > 1 and len(first) == 1:
        yield f"of the head before, {first[0]:g} for the first", np.concatenate((kept[:, :1], due[:, :-1]), axis=1)
    first = np.unique(kept[:1])
    if len(due) > ORDERED and len(first) == 1:
        yield f"of the token before, {first[0]:g} for the first", np.concatenate((kept[:1], due[:-1]))


def kept_in_another_order(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Right scales whose blocks, or heads, stand in another order: that of all rows, recovered from them."""
    due = None if emitted.scale is None else facts.own(tensor).scale
    if due is None or emitted.scale is None or due.shape != emitted.scale.shape or due.ndim < 2:
        return None
    if not LEAST <= due.shape[-1] <= MOST:
        return None
    kept = emitted.scale.reshape(-1, due.shape[-1])[:ROWS]
    one = due.reshape(-1, due.shape[-1])[:ROWS]
    same = near(kept[:, :, None], one[:, None, :], UNDECLARED_ULPS).all(axis=0)
    if len(kept) < ORDERED or not (same.sum(axis=1) == 1).all() or not (same.sum(axis=0) == 1).all():
        return None
    order = same.argmax(axis=1)
    of = "blocks" if due.ndim == 3 else "heads"
    named = ", ".join(f"{there} holds {held}'s" for there, held in enumerate(order[:NAMED].tolist()))
    said = "in reverse" if (order == np.arange(len(order))[::-1]).all() else f"in another order: {named} and so on"
    return _kept(facts, tensor, due, due[..., order], f"those of the row's {of} {said}", {"order": order.tolist()})


def kept_inverted(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The reciprocal kept, and right codes beside it."""
    due = due_scales(facts, tensor, emitted)
    if due is None:
        return None
    with np.errstate(all="ignore"):
        kept = np.asarray(np.float32(1) / due, np.float32)
    return _kept(facts, tensor, due, kept, "kept as their reciprocals", {})


def kept_logarithm(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The scale's logarithm kept, and right codes beside it."""
    due = due_scales(facts, tensor, emitted)
    if due is None or emitted.scale is None or due.shape != emitted.scale.shape:
        return None
    for words, base in (("to base 2", np.log(2.0)), ("to base e", 1.0)):
        with np.errstate(all="ignore"):
            kept = np.asarray(np.log(due.astype(np.float64)) / base, np.float32)
        if near(emitted.scale, kept, UNDECLARED_ULPS).any():
            return _kept(facts, tensor, due, kept, f"kept as their logarithms {words}", {})
    return None


def kept_amax(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The amax kept for the scale."""
    rule, due = computed(facts, emitted), due_scales(facts, tensor, emitted)
    if rule is None or due is None:
        return None
    amax = grouped(bounded(rule, largest_magnitudes(rule, facts.values(tensor))))
    return _kept(facts, tensor, due, amax, "not kept, but each amax where its scale belongs", {})


def kept_times(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The scale times a constant kept, recovered from the scales; where all are alike, from those of both tensors."""
    due = due_scales(facts, tensor, emitted)
    if due is None or emitted.scale is None or due.shape != emitted.scale.shape:
        return None
    mine, theirs = _quotients(facts, tensor), _quotients(facts, "v" if tensor == "k" else "k")
    if len(np.unique(mine[0])) < 2:
        mine = (np.concatenate((mine[0], theirs[0])), np.concatenate((mine[1], theirs[1])))
        same = np.ptp(mine[1]) <= UNDECLARED_ULPS * ULP * np.max(mine[1]) if len(mine[1]) else False
        if not same or (len(np.unique(mine[0])) < 2 and not _near_power(float(mine[1][0]))):
            return None
    factor = float(np.median(mine[1]))
    kept = np.asarray(due * np.float32(factor), np.float32)
    return _kept(facts, tensor, due, kept, f"kept {factor:.7g} times as large as due", {"factor": factor})


def _near_power(factor: float) -> bool:
    """Whether a factor is one of the powers of two that an exponent is off by: one quotient is always some number."""
    return factor in {2.0**power for power in range(-NEAR, NEAR + 1)}


def _quotients(facts: Facts, tensor: Tensor) -> tuple[Floats, npt.NDArray[np.float64]]:
    """A tensor's scales that are due, and by what the kept ones are larger; those that are numbers above zero."""
    emitted = facts.emitted(tensor)
    due = due_scales(facts, tensor, emitted)
    if due is None or emitted.scale is None or due.shape != emitted.scale.shape:
        return np.zeros(0, np.float32), np.zeros(0)
    some = np.isfinite(due) & np.isfinite(emitted.scale) & (due > 0) & (emitted.scale > 0)
    return due[some], emitted.scale[some].astype(np.float64) / due[some]


def kept_constant(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """One number kept for all scales, where unlike ones are due."""
    due = due_scales(facts, tensor, emitted)
    if due is None or emitted.scale is None or due.shape != emitted.scale.shape:
        return None
    found = np.unique(emitted.scale)
    if len(found) != 1 or len(np.unique(due)) < ORDERED:
        return None
    kept = np.full_like(due, found[0])
    return _kept(facts, tensor, due, kept, f"not kept: {found[0]:g} stands for all of them", {"value": float(found[0])})


def kept_in_other_bytes(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Right scales whose four bytes, or two halves, are stored the other way round."""
    rule, due = computed(facts, emitted), None if emitted.scale is None else facts.own(tensor).scale
    if rule is None or due is None or emitted.scale is None or rule.dtype != "fp32" or due.shape != emitted.scale.shape:
        return None
    for words, turned in (("bytes", _bytes_turned), ("halves", _halves_turned)):
        back = turned(emitted.scale)
        same = near(back, due, UNDECLARED_ULPS)
        # What is due may be off by an ulp: the bytes of that are others.
        kept = np.where(same, emitted.scale, turned(due))
        if same.any():
            return _kept(facts, tensor, due, kept, f"stored with their {words} the other way round", {})
    return None


def _bytes_turned(scale: Floats) -> Floats:
    return np.asarray(np.ascontiguousarray(scale).view(np.uint32).byteswap().view(np.float32), np.float32)


def _halves_turned(scale: Floats) -> Floats:
    bits = np.ascontiguousarray(scale).view(np.uint32)
    return np.asarray((bits << np.uint32(16)) | (bits >> np.uint32(16)), np.uint32).view(np.float32)


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
    if near(kept, due, 2 * UNDECLARED_ULPS)[~right].any():
        return None
    scaled = applied(facts, facts.values(tensor), due)
    says = f"scales are {words}; its codes are those of the right ones"
    return Made(kept, says, evidence, scaled=scaled, ulps=UNDECLARED_ULPS)
