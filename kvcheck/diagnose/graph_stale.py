"""`graph-stale`: a replay stores what stood in memory when its graph was captured, or nothing at all.

In the capture K, V, slots and given scales are a decoy's (`draw.decoy`), each unlike those of every replay: a kernel
that keeps one of them by value stores as if it were still there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from kvcheck.addresses import among, distinct
from kvcheck.contract import Given
from kvcheck.diagnose.destination import lost_or_stray
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Floats, Indices, Mask, Stored
from kvcheck.diagnose.final import final
from kvcheck.diagnose.groups import encoded
from kvcheck.diagnose.match import PROOF, SHARE
from kvcheck.diagnose.part import Part, part, wrong_positions
from kvcheck.diagnose.prospect import fails, fails_reading
from kvcheck.diagnose.side import condemned, offsets_of, placed_positions, stored_at
from kvcheck.diagnose.taken import Agreement, Taken, any_in_row
from kvcheck.draw.image import decoy_inputs
from kvcheck.draw.inputs import Inputs
from kvcheck.formats.apply import apply_scale
from kvcheck.schema import Tensor

SLOTS, ROWS, SCALE, ALL = "slots", "rows of K or V", "given scale", "the store is not in the graph"
#: Scales that were computed from the capture's rows, in use for those of the replay: a calibration that is kept.
OF_ROWS = "scales of the rows"

#: Tokens that a sentence names.
NAMED = 4

_WORDS = {
    SLOTS: "in the slots",
    ROWS: "from the rows",
    SCALE: "with the given scale",
    OF_ROWS: "with the scales of rows",
}


class GraphStale:
    """A replay that uses the capture's slots, rows or given scale, any of them or all, or stores nothing."""

    slug = "graph-stale"
    forms = (SLOTS, ROWS, SCALE, ALL)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether a replay that keeps one of the capture's inputs would leave another byte, and one that is empty."""
        scaled = _has_scale(facts)
        if not _is_replayed(facts):
            return {form: False for form in self.forms if form != SCALE or scaled}
        some = len(facts.tokens) > 0
        shown = {SLOTS: some, ROWS: any(_shows_rows(facts, tensor) for tensor in TENSORS)}
        if scaled:
            shown[SCALE] = any(_shows_scale(facts, tensor) for tensor in TENSORS)
        return {**shown, ALL: some}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """At most one for each tensor."""
        if not _is_replayed(facts):
            return []
        found = [_stale(facts, tensor) or _empty(facts, tensor) for tensor in TENSORS]
        return [each for each in found if each is not None]


def _is_replayed(facts: Facts) -> bool:
    return facts.emission.case.launch == "graph"


def _has_scale(facts: Facts) -> bool:
    """Whether the scale is an input that a graph need not keep: one that is handed over as a float it does."""
    return isinstance(facts.contract.scale, Given) and not facts.contract.scale.as_float


@lru_cache(maxsize=2)
def _decoy(facts: Facts) -> Inputs:
    return decoy_inputs(facts.emission.placement, facts.emission.case, facts.contract)


def _rows(facts: Facts, tensor: Tensor) -> Floats:
    """The capture's rows of all tokens: fp32 `[rows, heads, dim]`."""
    drawn = _decoy(facts)
    return drawn.k_float if tensor == "k" else drawn.v_float


def _scale(facts: Facts, tensor: Tensor) -> Floats:
    """The capture's given scale, `[1]` or `[heads]`."""
    drawn = _decoy(facts)
    scale = drawn.k_scale if tensor == "k" else drawn.v_scale
    assert scale is not None
    return scale


def _shows_rows(facts: Facts, tensor: Tensor) -> bool:
    return fails_reading(facts, tensor, facts.chosen(tensor, _rows(facts, tensor)))


def _shows_scale(facts: Facts, tensor: Tensor) -> bool:
    own = facts.own(tensor)
    scaled = apply_scale(facts.contract, own.x, own.elements(_scale(facts, tensor)))
    return fails(facts, tensor, Stored(encoded(facts, scaled), None))


@dataclass(frozen=True)
class _Held:
    """How a replay fares that keeps `stale` of the capture: `rows` `[n, heads]` are as it leaves them.

    `explained` are the positions of condemned bytes that it accounts for; `proof` counts those in rows whose codes are
    not all alike, and a quarter of the stray ones of others. `against` counts right rows that it would
    have left otherwise.
    """

    stale: tuple[str, ...]
    rows: Mask
    explained: Indices
    proof: int
    against: int


def _stale(facts: Facts, tensor: Tensor) -> Explanation | None:
    """The fewest of the capture's inputs that give most of what is wrong."""
    codes = part(facts, tensor, "codes")
    assert codes is not None
    bad = _bad(facts, tensor)
    if not bad.any():
        return None
    held = [each for each in _tried(facts, tensor) if each.proof >= PROOF]
    best = max(held, key=lambda each: (len(each.explained), -each.against), default=None)
    if best is None or (best.rows & bad).sum() < SHARE * bad.sum():
        return None
    what = " and ".join(_WORDS[each] for each in best.stale)
    says = f"{tensor.upper()} is stored {what} that stood there when the graph was captured"
    apart = _apart(facts, tensor, best.stale, int(np.argmax((best.rows & bad).any(axis=1))))
    says += f" ({', '.join(apart)})" if apart else ""
    if best.against:  # bytes of a decoy do not come by chance, however many rows are right
        tokens = facts.stored_tokens[(best.rows & bad).any(axis=1)]
        says += (
            f", of token {', '.join(map(str, tokens[:NAMED].tolist()))}{' and others' if len(tokens) > NAMED else ''}"
        )
    evidence: dict[str, int | float | str | list[int]] = {
        "stale": ", ".join(best.stale), "rows_explained": int((best.rows & bad).sum()),
    }  # fmt: skip
    if SLOTS in best.stale:
        evidence["slots_used"] = _slots(facts, best.stale).tolist()
    if best.against:
        evidence["rows_against"] = best.against
    cost = len(best.stale) + bool(best.against)
    return _explanation(facts, tensor, best.explained, cost, says, evidence)


def _apart(facts: Facts, tensor: Tensor, stale: tuple[str, ...], row: int) -> list[str]:
    """The slot of a stored token, and the first given scale, of the capture and of the replay."""
    said = []
    if SLOTS in stale:
        used, due = _slots(facts, stale)[row], facts.slots[row]
        said.append(f"token {facts.stored_tokens[row]} in slot {used}, where {due} is due")
    if SCALE in stale:
        said.append(f"scale {_scale(facts, tensor)[0]:g}, where {facts.given(tensor)[0]:g} is due")
    return said


def _tried(facts: Facts, tensor: Tensor) -> Iterator[_Held]:
    """Every choice of inputs that a replay may have of the capture, the smallest first."""
    kept: tuple[str, ...] = (SLOTS, ROWS)
    if _has_scale(facts):
        kept = (*kept, SCALE)
    elif part(facts, tensor, "scales") is not None:
        kept = (*kept, OF_ROWS)
    for count in range(1, len(kept) + 1):
        for stale in combinations(kept, count):
            if not {ROWS, OF_ROWS} <= set(stale):  # rows have their own scales
                yield _held(facts, tensor, stale)


def _held(facts: Facts, tensor: Tensor, stale: tuple[str, ...]) -> _Held:
    x = _rows(facts, tensor)[facts.stored_tokens] if ROWS in stale else facts.values(tensor, facts.stored_tokens)
    given = None
    if isinstance(facts.contract.scale, Given):
        given = _scale(facts, tensor) if SCALE in stale else facts.given(tensor)
    held = [each for each in (part(facts, tensor, "codes"), part(facts, tensor, "scales")) if each is not None]
    taken = Taken(facts.contract, x, given, keeps=len(held) > 1)
    slots = _slots(facts, stale)
    codes, scales = held[0].placed, held[1].placed if len(held) > 1 else None
    codes_at = offsets_of(codes, slots)[..., 0]
    there = stored_at(
        final(facts), codes, codes_at, scales, None if scales is None else offsets_of(scales, slots)
    )  # fmt: skip
    agreed = _by_scales_of_rows(facts, tensor, taken, there) if OF_ROWS in stale else taken.agreement(there)
    wrong_scales = None if agreed.scales is None else ~agreed.scales
    rows = np.asarray(agreed.codes.all(axis=2) & ~any_in_row(wrong_scales, x.shape[:2]))
    rows = _by_slot(rows, slots)
    wrong = wrong_positions(facts)
    varied = rows & (there.codes != there.codes[:, :, :1]).any(axis=2)
    found = placed_positions(codes, codes_at).reshape(codes_at.shape)
    proof = int(among(distinct(found[varied].ravel()), wrong).sum())
    # Rows of one repeated code: so many stray bytes just where the capture's slots are do not come by chance.
    proof += int(among(distinct(found[rows & ~varied].ravel()), final(facts).stray).sum()) // 4
    explained = distinct(np.concatenate([_positions(each, each.at(each.placed, slots), rows, wrong) for each in held]
                                        + [_positions(each, each.due_at, rows, wrong) for each in held]))  # fmt: skip
    against = int((~rows & ~_bad(facts, tensor)).sum())
    return _Held(stale, rows, explained, proof, against)


def _by_scales_of_rows(facts: Facts, tensor: Tensor, taken: Taken, there: Stored) -> Agreement:
    """Which codes are those of the kept scales, and which of these are right for the capture's rows."""
    assert there.scale is not None
    before = Taken(facts.contract, _rows(facts, tensor)[facts.stored_tokens], None, keeps=True)
    allowed = taken.under(there.scale)
    return Agreement(allowed.admits(there.codes), before.legal(there.scale), allowed.undefined)


def _by_slot(rows: Mask, slots: Indices) -> Mask:
    """The same for tokens that share a slot: one row stands there, in each head that of any of them."""
    _, which = np.unique(slots, return_inverse=True)
    held = np.zeros((int(which.max(initial=-1)) + 1, rows.shape[1]), np.bool_)
    np.logical_or.at(held, which, rows)
    return np.asarray(held[which])


def _slots(facts: Facts, stale: tuple[str, ...]) -> Indices:
    """The slots of the stored tokens: the capture's, or their own."""
    return np.asarray(_decoy(facts).slots[facts.stored_tokens]) if SLOTS in stale else facts.slots


def _bad(facts: Facts, tensor: Tensor) -> Mask:
    """The rows with a byte that is lost or wrong: `[stored tokens, heads]`."""
    codes, scales = part(facts, tensor, "codes"), part(facts, tensor, "scales")
    assert codes is not None
    return codes.bad if scales is None else np.asarray(codes.bad | _by_head(scales, codes.bad.shape))


def _by_head(scales: Part, shape: tuple[int, ...]) -> Mask:
    """Which heads have a scale that is lost or wrong: blocks of a head together, those of the token for all."""
    return np.asarray(scales.bad.reshape(shape[0], -1, max(scales.bad.shape[1] // shape[1], 1)).any(axis=2))


def _positions(held: Part, at: Indices, rows: Mask, wrong: Indices) -> Indices:
    """The condemned ones of the positions of a part's units at byte offsets `at`, of these rows."""
    units, heads = held.due_at.shape[1], rows.shape[1]
    mine = np.repeat(rows, units // heads, axis=1) if units >= heads else rows.all(axis=1, keepdims=True)
    places = placed_positions(held.placed, at).reshape(at.shape)[mine]
    return np.asarray(places[among(places, wrong)].ravel(), np.int64)


def _empty(facts: Facts, tensor: Tensor) -> Explanation | None:
    """Nothing is stored, though the call before the capture, with the same memory, has stored."""
    held = [each for each in (part(facts, tensor, "codes"), part(facts, tensor, "scales")) if each is not None]
    called = facts.emission.called or ()
    if not all(each.lost.all() and each.lost.size and each.placed.name in called for each in held):
        return None
    lost = distinct(np.concatenate([placed_positions(each.placed, each.due_at).ravel() for each in held]))
    lost = lost[among(lost, wrong_positions(facts))]
    says = f"no replay stores {tensor.upper()}, which a call before the capture did: the store is not in the graph"
    return _explanation(facts, tensor, lost, 2, says, {"stale": ALL})


def _explanation(
    facts: Facts,
    tensor: Tensor,
    explained: Indices,
    cost: int,
    says: str,
    evidence: dict[str, int | float | str | list[int]],
) -> Explanation:
    codes, scales = part(facts, tensor, "codes"), part(facts, tensor, "scales")
    assert codes is not None
    right = facts.right(tensor)
    mine = np.asarray(_mine(codes, explained)[facts.compared] & ~right.codes)
    groups = None
    if scales is not None and right.scales is not None:
        found = np.asarray(_mine(scales, explained).any(axis=2))[facts.compared]
        groups = np.asarray(found.reshape(right.scales.shape) & ~right.scales)
    return Explanation(
        GraphStale.slug,
        tensor,
        mine,
        groups,
        lost_or_stray(facts, explained),
        condemned(facts),
        cost,
        says,
        evidence,
    )


def _mine(held: Part, explained: Indices) -> Mask:
    """Which bytes of a part, where they are due, are among the explained ones: `[n, units, width]`."""
    at: Mask = among(placed_positions(held.placed, held.due_at), explained).reshape(held.due_at.shape)
    return at
