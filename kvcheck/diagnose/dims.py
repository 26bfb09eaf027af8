"""`cache-layout` within a head: right codes by the right scale, the elements of each head in another order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kvcheck.contract import Computed
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Indices
from kvcheck.diagnose.fault import Unpromised
from kvcheck.diagnose.match import PROOF, Match, believed, match
from kvcheck.diagnose.taken import AllowedCodes
from kvcheck.schema import Tensor

#: Elements that a vector or a word may have.
VECTORS = (2, 4, 8, 16, 32, 64)
#: Rows that an order is recovered from.
ROWS = 256
#: Elements that a sentence names of an order without a name.
NAMED = 4


class ElementOrder(Unpromised):
    """Elements exchanged within each head: halves, pairs, the bytes of a word, rows and columns of a small matrix."""

    slug = "cache-layout"

    def explanations(self, facts: Facts) -> list[Explanation]:
        """The first order, for each tensor with wrong codes, that gives all of them; else the one that gives most."""
        return [made for tensor in TENSORS if (made := _explanation(facts, tensor)) is not None]


def _explanation(facts: Facts, tensor: Tensor) -> Explanation | None:
    x, right = facts.values(tensor, facts.stored_tokens), facts.right(tensor)
    if right.codes.all() or not _permuted(facts, tensor):
        return None
    best: tuple[Match, Indices, str] | None = None
    for order, words in _orders(facts, tensor):
        found = match(facts, tensor, x[:, :, order])
        if _by_block(facts) and not believed(found):
            found = _moved(facts, tensor, order)
        if believed(found) and (best is None or found.codes > best[0].codes):
            best = (found, order, words)
        if best is not None and best[0].codes == best[0].wrong:
            break
    if best is None:
        return None
    found, order, words = best
    return Explanation(
        fault=ElementOrder.slug,
        tensor=tensor,
        codes=found.wrong_codes,
        scales=None,
        others=0,
        of_others=0,
        cost=2 + bool(found.against),
        says=f"{tensor.upper()}'s codes stand in another order within each head: {words}",
        evidence={"order": order.tolist(), "rows_explained": found.rows},
    )


def _by_block(facts: Facts) -> bool:
    """Whether a head has several scales: elements may move away from theirs."""
    rule = facts.contract.scale
    return isinstance(rule, Computed) and rule.granularity.startswith("block:")


def _moved(facts: Facts, tensor: Tensor, order: Indices) -> Match:
    """How codes fare that are made by the right scales, each where it is due, and then moved."""
    emitted, right = facts.emitted(tensor), facts.right(tensor)
    due = facts.own(tensor).by(emitted.scale)
    bounds = None if due.bounds is None else (due.bounds[0][:, :, order], due.bounds[1][:, :, order])
    moved = AllowedCodes(due.right[:, :, order], bounds, due.undefined[:, :, order])
    fits, wrong = np.asarray(moved.admits(emitted.codes).all(axis=2)), ~right.codes
    rows = wrong.any(axis=2)
    explained = np.asarray(fits & rows)
    varied = explained & (emitted.codes != emitted.codes[:, :, :1]).any(axis=2)
    return Match(
        wrong=int(wrong.sum()),
        wrong_scales=0,
        codes=int((wrong & explained[:, :, None]).sum()),
        scales=0,
        rows=int(explained.sum()),
        proven=bool((wrong & ~moved.undefined)[varied].sum() >= PROOF),
        against=int((~fits & ~rows).sum()),
        wrong_codes=wrong & explained[:, :, None],
        wrong_groups=np.zeros((0, 0), np.bool_),
    )


def _permuted(facts: Facts, tensor: Tensor) -> bool:
    """Whether most wrong rows hold the very codes that are due, in whatever order."""
    due, there = facts.own(tensor).stored.codes, facts.emitted(tensor).codes
    bad = ~facts.right(tensor).codes.all(axis=2)
    near = (np.sort(due[bad], axis=1) == np.sort(there[bad], axis=1)).mean(axis=1)
    # Under a declared error a few of them are a neighbour of the one due.
    return bool(len(near)) and float(np.median(near)) > 0.9


def _orders(facts: Facts, tensor: Tensor) -> Iterator[tuple[Indices, str]]:
    """For each place, the element that stands there; the orders that have a name first."""
    dim = facts.values(tensor).shape[2]
    lane = np.arange(dim, dtype=np.int64)
    if dim % 2 == 0:
        yield np.roll(lane, dim // 2), "the two halves exchanged"
    for size in sorted({*VECTORS, *(dim // each for each in VECTORS)}):
        if not 1 < size < dim or dim % size:
            continue
        rows = lane.reshape(-1, size)
        yield rows.T.reshape(-1), f"as a matrix of {dim // size} by {size} that is turned"
        yield rows[:, ::-1].reshape(-1), f"each {size} of them in reverse"
        yield np.roll(rows, size // 2, axis=1).reshape(-1), f"the halves of each {size} of them exchanged"
        yield rows[::-1].reshape(-1), f"groups of {size} in reverse"
        yield np.roll(lane, size), f"{size} places on"
        yield np.roll(lane, -size), f"{size} places back"
    yield lane[::-1].copy(), "in reverse"
    yield np.roll(lane, 1), "one place on"
    yield np.roll(lane, -1), "one place back"
    found = _recovered(facts, tensor)
    if found is not None:
        moved = np.flatnonzero(found != lane)[:NAMED].tolist()
        named = ", ".join(f"{there} holds {found[there]}" for there in moved)
        yield found, f"{named} and so on"


def _recovered(facts: Facts, tensor: Tensor) -> Indices | None:
    """The order by the column of due codes that each place has in all rows.

    None where one has none, or several, or two have the same: that is no order.
    """
    due, there = facts.own(tensor).stored.codes, facts.emitted(tensor).codes
    rows = np.flatnonzero(~facts.right(tensor).codes.all(axis=2))[:ROWS]
    one, other = (codes.reshape(-1, codes.shape[2])[rows] for codes in (due, there))
    columns: dict[bytes, list[int]] = {}
    for element in range(one.shape[1]):
        columns.setdefault(one[:, element].tobytes(), []).append(element)
    found = [columns.get(other[:, place].tobytes(), []) for place in range(other.shape[1])]
    if not all(len(each) == 1 for each in found) or len({each[0] for each in found}) < len(found):
        return None
    return np.array([each[0] for each in found], np.int64)
