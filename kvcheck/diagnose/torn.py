"""`duplicate-slot`: a slot that tokens share holds parts of more than one of their rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Indices, Mask, Stored
from kvcheck.diagnose.part import part
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


def shared(facts: Facts) -> Iterator[Indices]:
    """The positions in `stored_tokens` of the tokens of each slot that several name."""
    slots, count = np.unique(facts.slots, return_counts=True)
    for slot in slots[count > 1]:
        yield np.flatnonzero(facts.slots == slot)


def _tears(facts: Facts, tensor: Tensor) -> bool:
    if facts.emission.placement.find(f"{tensor}_scales") is None:
        return False
    x = facts.values(tensor, facts.stored_tokens)
    due = facts.stored(tensor, x)
    assert due.scale is not None
    for rows in shared(facts):
        torn = Stored(
            np.repeat(due.codes[rows[-1:]], len(rows), axis=0), np.repeat(due.scale[rows[:1]], len(rows), axis=0)
        )
        found = facts.agreement(tensor, x[rows], torn)
        assert found.scales is not None
        whole = found.codes.all(axis=2) & (found.scales.all(axis=2) if found.scales.ndim == 3 else found.scales)
        if not whole.any(axis=0).all():
            return True
    return False


def _says(facts: Facts, tensor: Tensor) -> Explanation | None:
    held = side(facts, tensor)
    pairs, torn, explained, slots = [], 0, 0, []
    for rows in shared(facts):
        found = _slot(facts, held, rows)
        if found is None:
            continue
        count, said = found
        explained += count
        torn += 1
        slots.append(int(facts.slots[rows[0]]))
        pairs.append(f"slot {facts.slots[rows[0]]} holds {said}")
    if not torn:
        return None
    codes, scales = part(facts, tensor, "codes"), part(facts, tensor, "scales")
    alone = np.isin(facts.stored_tokens, facts.tokens)
    wrong = int(codes.wrong[alone].sum()) if codes else 0
    wrong += int(scales.wrong[alone].sum()) if scales else 0
    return Explanation(
        fault=TornSlot.slug,
        tensor=tensor,
        codes=None,
        scales=None,
        others=explained,
        of_others=explained,
        cost=2,
        says=f"{tensor.upper()}: {pairs[0]}" + (f", and {torn - 1} more slots so" if torn > 1 else ""),
        evidence={"slots": slots, "wrong_elsewhere": wrong},
    )


def _slot(facts: Facts, held: Side, rows: Indices) -> tuple[int, str] | None:
    """The bytes that are torn in one shared slot, and how; None where it holds one row, or what no sharer has."""
    here = Stored(held.found.codes[rows], None if held.found.scale is None else held.found.scale[rows])
    tensor, x = held.rows.tensor, held.rows.x[rows]
    found = facts.agreement(tensor, x, here)
    # With its own right scale each token would have stored these codes, whatever scale stands there.
    due = held.rows.due.scale
    own = facts.agreement(tensor, x, Stored(here.codes, None if due is None else due[rows]))
    codes = found.codes | own.codes
    per_token = np.asarray(codes.all(axis=2))
    scale: Mask
    if found.scales is None:
        scale = np.ones(per_token.shape, np.bool_)
    else:
        scale = np.broadcast_to(found.scales.all(axis=2) if found.scales.ndim == 3 else found.scales, per_token.shape)
    if (per_token & scale).any(axis=0).all():
        return None
    tokens = facts.stored_tokens[rows]
    if per_token.any(axis=0).all() and scale.any(axis=0).all():
        head = int(np.argmin((per_token & scale).any(axis=0)))
        a, b = tokens[np.argmax(per_token[:, head])], tokens[np.argmax(scale[:, head])]
        heads = int((~(per_token & scale).any(axis=0)).sum())
        item = 4 if held.lost_scales is None else held.lost_scales.shape[-1]
        return heads * item, f"the codes of token {a} with the scale of token {b}"
    if codes.any(axis=0).all():
        parts = [int(count) for count in codes.sum(axis=(1, 2))]
        best = int(np.max(codes.sum(axis=2), axis=0).sum())
        named = " and ".join(f"{count} of token {token}" for count, token in zip(parts, tokens.tolist(), strict=True))
        return int(codes.shape[1] * codes.shape[2]) - best, f"codes of several tokens: {named}"
    return None
