"""Given scales of other heads in use, by a map that is another one for each token or each element."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kvcheck.contract import Given
from kvcheck.diagnose.facts import Facts, Floats, Indices, Stored
from kvcheck.diagnose.groups import legal_by
from kvcheck.diagnose.scale_fault import Made
from kvcheck.diagnose.scale_rules import applied, applied_elements
from kvcheck.schema import Tensor

#: Head_dims that a kernel may have been built for.
WIDTHS = (16, 32, 64, 128, 256, 512, 1024)


def by_token(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Codes of each row by the scale of a head that its token's number says, or any that is recovered from them."""
    scale = _scales(facts, tensor)
    if scale is None:
        return None
    x, heads = facts.values(tensor), np.arange(len(scale))
    for words, which in _by_number(facts, len(scale)):
        made = _made(facts, tensor, emitted, scale[which][:, :, None], f"the scale of head {words}")
        if made is not None:
            return made
    # A head's own comes first, then the next one's behind: of heads whose scales are equal the nearest is named.
    by = [applied(facts, x, np.roll(scale, -ahead)) for ahead in heads]
    holds = np.array([legal_by(facts, scaled, emitted.codes).all(axis=2) for scaled in by])
    which = (heads + holds.argmax(axis=0)) % len(heads)
    moved = np.argwhere(which != heads)
    if not holds.any(axis=0).all() or not len(moved):
        return None
    row, head = moved[0]
    named = f"token {facts.tokens[row]}, head {head} has {which[row, head]}'s and so on"
    return _made(facts, tensor, emitted, scale[which][:, :, None], f"other heads' scales, token by token: {named}")


def by_element(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Codes by the scale of the head that an element would be of in a row of another head_dim, or heads innermost."""
    scale = _scales(facts, tensor)
    if scale is None:
        return None
    _, heads, dim = facts.values(tensor).shape
    lane = np.arange(heads)[:, None] * dim + np.arange(dim)
    other = facts.values("v" if tensor == "k" else "k").shape[2]
    for width in dict.fromkeys((other, *WIDTHS)):
        if width != dim:
            found = np.minimum(lane // width, heads - 1)
            says = f"the scale of the head that each element is of where head_dim is {width}, not {dim}"
            made = _made(facts, tensor, emitted, scale[found], says, width=width)
            if made is not None:
                return made
    for which, words in (
        (lane % heads, "e % heads for the row's element e"),
        (np.broadcast_to(np.arange(dim) % heads, lane.shape), "d % heads for the head's element d"),
        (np.broadcast_to(np.arange(dim) * heads // dim, lane.shape), "d * heads // head_dim for the head's element d"),
    ):
        made = _made(facts, tensor, emitted, scale[which], f"the scale of head {words}")
        if made is not None:
            return made
    return None


def _scales(facts: Facts, tensor: Tensor) -> Floats | None:
    """The scales that are given, one a head of several; else None."""
    rule = facts.contract.scale
    if not isinstance(rule, Given) or rule.granularity != "head":
        return None
    scale = facts.given(tensor)
    return scale if len(scale) > 1 else None


def _by_number(facts: Facts, heads: int) -> Iterator[tuple[str, Indices]]:
    """Which head a row's scale is of, `[n, heads]`, by the numbers of its token and head; in words."""
    token, head = facts.tokens[:, None], np.arange(heads)
    every = np.zeros((len(token), heads), np.int64)
    yield "t % heads for token t", every + token % heads
    yield "t for token t, the last one's beyond them", every + np.minimum(token, heads - 1)
    yield "(t + h) % heads for token t, head h", (token + head) % heads
    count = max(facts.emission.case.tokens, 1)
    yield "r // tokens for row r = t * heads + h", np.minimum((token * heads + head) // count, heads - 1)


def _made(facts: Facts, tensor: Tensor, emitted: Stored, scale: Floats, says: str, **evidence: int) -> Made | None:
    """Codes by a scale for each element, `scale` broadcast to them; None where not all are."""
    x = facts.values(tensor)
    scaled = applied_elements(facts, x, np.ascontiguousarray(np.broadcast_to(scale, x.shape)))
    if not legal_by(facts, scaled, emitted.codes).all():
        return None
    return Made(None, f"codes are those of {says}", dict(evidence), scaled=scaled)
