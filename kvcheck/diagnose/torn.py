"""`duplicate-slot`: a slot that tokens share holds parts of more than one of their rows."""

from __future__ import annotations

import numpy as np

from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Indices, Mask, Stored
from kvcheck.diagnose.match import PROOF
from kvcheck.diagnose.sharers import shared
from kvcheck.diagnose.side import Side, side
from kvcheck.schema import Tensor


class TornSlot:
    """Codes of one token with the scale of another, or codes of several."""

    slug = "duplicate-slot"

    forms = ("",)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether the codes of the last token of a slot with the scale of the first would be a row of neither."""
        return {"": any(_tears(facts, tensor) for tensor in TENSORS)}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """One for each tensor with such slots."""
        found = [_says(facts, tensor) for tensor in TENSORS]
        return [each for each in found if each is not None]


def _tears(facts: Facts, tensor: Tensor) -> bool:
    if facts.emission.placement.find(f"{tensor}_scales") is None:
        return False
    taken = facts.own_stored(tensor)
    due = taken.stored
    assert due.scale is not None
    for rows in shared(facts.slots):
        torn = Stored(
            np.repeat(due.codes[rows[-1:]], len(rows), axis=0), np.repeat(due.scale[rows[:1]], len(rows), axis=0)
        )
        found = facts.taken(tensor, taken.x[rows]).agreement(torn)
        assert found.scales is not None
        whole = found.codes.all(axis=2) & (found.scales.all(axis=2) if found.scales.ndim == 3 else found.scales)
        if not whole.any(axis=0).all():
            return True
    return False


def _says(facts: Facts, tensor: Tensor) -> Explanation | None:
    held, right = side(facts, tensor), facts.right(tensor)
    said, slots, rows = [], [], np.zeros(right.codes.shape[:2], np.bool_)
    for sharers in shared(facts.slots):
        found = _slot(facts, held, sharers)
        if found is not None:
            rows[facts.row_of[sharers[0]]] = found[0]
            slots.append(int(facts.slots[sharers[0]]))
            said.append(f"slot {slots[-1]} holds {found[1]}")
    if not said:
        return None
    return Explanation(
        fault=TornSlot.slug,
        tensor=tensor,
        codes=~right.codes & rows[:, :, None],
        scales=None if right.scales is None else ~right.scales & _on_scales(rows, right.scales),
        others=0,
        of_others=0,
        cost=2,
        says=f"{tensor.upper()}: {said[0]}" + (f", and {len(said) - 1} more slots so" if len(said) > 1 else ""),
        evidence={"slots": slots},
    )


def _on_scales(rows: Mask, scales: Mask) -> Mask:
    """A mask of (token, head) rows, shaped so that it goes with scales `[n, *groups]`."""
    per_head = rows if scales.shape[1] == rows.shape[1] else np.asarray(rows.any(axis=1, keepdims=True))
    return per_head[:, :, None] if scales.ndim == 3 else per_head


def _slot(facts: Facts, held: Side, rows: Indices) -> tuple[Mask, str] | None:
    """The heads that are torn in one shared slot, and how; None where each holds one row, or what no sharer has."""
    here = Stored(held.found.codes[rows], None if held.found.scale is None else held.found.scale[rows])
    taken = facts.taken(held.rows.tensor, held.rows.x[rows])
    found = taken.agreement(here)
    # With its own right scale each token would have stored these codes, whatever scale stands there.
    codes = found.codes | taken.allowed.admits(here.codes)
    per_token = np.asarray(codes.all(axis=2))
    scale: Mask
    if found.scales is None:
        scale = np.ones(per_token.shape, np.bool_)
    else:
        scale = np.broadcast_to(found.scales.all(axis=2) if found.scales.ndim == 3 else found.scales, per_token.shape)
    whole = np.asarray((per_token & scale).any(axis=0))
    if whole.all():
        return None
    tokens = facts.stored_tokens[rows]
    if per_token.any(axis=0).all() and scale.any(axis=0).all():
        head = int(np.argmin(whole))
        a, b = tokens[np.argmax(per_token[:, head])], tokens[np.argmax(scale[:, head])]
        return ~whole, f"the codes of token {a} with the scale of token {b}"
    # Codes that are one token's and no other's: some of each are met by chance.
    foreign = codes.any(axis=0).sum(axis=1) - codes.sum(axis=2).max(axis=0)
    if codes.any(axis=0).all() and foreign.sum() >= PROOF:
        parts = [int(count) for count in codes.sum(axis=(1, 2))]
        named = " and ".join(f"{count} of token {token}" for count, token in zip(parts, tokens.tolist(), strict=True))
        return ~np.asarray(per_token.any(axis=0)), f"codes of several tokens: {named}"
    return None
