"""The map from slots to places that a launch used, recovered from where its rows stand, where no known map fits."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from kvcheck.diagnose.destination import Destination
from kvcheck.diagnose.facts import Indices, Mask
from kvcheck.diagnose.part import Part
from kvcheck.diagnose.search import find_units, slots_at
from kvcheck.diagnose.strides import named_strides

#: Widths at which an offset, or a slot, may wrap, in bits.
OFFSETS = (16, 32)
SLOTS = (8, 16)
#: Caches with more units than this are not searched for the slot that a place belongs to.
MOST = 1 << 20
#: Axes of a tensor's rows: pages, rows in them, heads.
ROWS, HEADS = 1, 2
#: Tokens that are held against each other.
PAIRED = 64
#: Pairs of slots that a sentence names.
NAMED = 4


def recovered_maps(part: Part) -> list[Destination]:
    """What the places of found units say: an offset that wraps, other slots, or other strides."""
    where = find_units(part)
    away = (where >= 0) & part.bad & (where != part.due_at[:, :, 0])
    if not away.any():
        return []
    return [*_wraps(part, where, away), *_slots(part, where, away), *_strides(part, where, away)]


def _wraps(part: Part, where: Indices, away: Mask) -> Iterator[Destination]:
    """Offsets of rows that are too large for an integer of some width, in elements."""
    item = part.due_at.shape[2] if part.kind == "scales" else 1
    within = part.at(part.placed, np.zeros(len(where), np.int64))[:, :, 0] - part.placed.offset
    due = (part.due_at[:, :, 0] - part.placed.offset - within) // item
    found = (where - part.placed.offset - within) // item
    for width in OFFSETS:
        for signed in (False, True):
            wrapped = due % (1 << width)
            if signed:
                wrapped = np.where(wrapped >= 1 << (width - 1), wrapped - (1 << width), wrapped)
            if (wrapped[away] == found[away]).all() and (wrapped == due)[~part.bad].all():
                at = part.due_at + ((wrapped - due) * item)[:, :, None]
                kind = "a signed" if signed else "an unsigned"
                says = (
                    f"written at row offsets that wrap in {kind} {width}-bit integer; "
                    f"the first is {due[away][0]}, and became {found[away][0]}"
                )
                yield Destination("index-wrap", at, 2, says, {"bits": width, "signed": int(signed)})
                return


def _slots(part: Part, where: Indices, away: Mask) -> Iterator[Destination]:
    """Whole rows in other slots than their own."""
    used = _slots_of(part, where)
    if used is None or (used[away] < 0).any():
        return
    slots = part.side.rows.slots
    tokens = np.flatnonzero(away.any(axis=1))
    taken = np.array([used[token][away[token]][0] for token in tokens], np.int64)
    if (used[tokens][away[tokens]] != np.repeat(taken, away[tokens].sum(axis=1))).any():
        return
    due = slots[tokens]
    pairs = ", ".join(f"{a} to {b}" for a, b in zip(due[:NAMED].tolist(), taken[:NAMED].tolist(), strict=True))
    more = f" and {len(due) - NAMED} others" if len(due) > NAMED else ""
    fault, rule, target = next(_rules(part, tokens, taken))
    if part.kind == "scales" and fault != "index-wrap":
        fault = "scale-address"
    says = f"written to other slots: {pairs}{more}{rule}"
    evidence: dict[str, int | float | str | list[int]] = {"slots_due": due.tolist(), "slots_used": taken.tolist()}
    yield Destination(fault, part.at(part.placed, target), 3, says, evidence, target)


def _rules(part: Part, tokens: Indices, taken: Indices) -> Iterator[tuple[str, str, Indices]]:
    """Rules that the slots `taken` of rows `tokens` follow, the plainest first: fault, words, all slots by it."""
    slots, page = part.side.rows.slots, part.placed.dims[1]
    due = slots[tokens]
    for width in SLOTS:
        if (taken == due % (1 << width)).all():
            yield "index-wrap", f", as slots of {width} bits are", slots % (1 << width)
    used = slots.copy()
    used[tokens] = taken
    tokens_on = part.side.rows.tokens
    by_first = slots[:1] + tokens_on - tokens_on[:1]
    stayed = ~part.bad.any(axis=1)
    if (taken == by_first[tokens]).all() and (slots[stayed] == by_first[stayed]).all():
        yield "cache-layout", f", one behind the other from slot {slots[0]} on, that of the first token", by_first
    if rows := _rows_of_page(due, taken, slots[stayed], page):
        yield "cache-layout", f", row % {rows} of their pages of {page}", slots // page * page + slots % page % rows
    # One step too far, or too few: rows of one edge alone are moved, and others, which are not at it, are not.
    if len(due) < len(slots) and _at_edge(due, taken, page):
        yield "page-boundary", f", at the edges of pages of {page} rows alone", used
    fault, by_token = "cache-layout", tokens_on // page * page + slots % page
    if page > 1 and (taken == by_token[tokens]).all():
        yield fault, ", in the pages that the tokens' own numbers would have", by_token
    if window := _window(due, taken, slots[stayed]):
        yield fault, f", the remainders of {window}", slots % window
    steps = np.unique(taken - due)
    if len(steps) == 1 and len(due) > 1:
        yield fault, f", each {steps[0]:+d} from its own", slots + steps[0]
    if page > 1 and (taken == due // page).all():
        yield fault, ", the number of the page being taken for that of the slot", slots // page
    yield fault, "", used


def _rows_of_page(due: Indices, taken: Indices, stayed: Indices, page: int) -> int:
    """The number, half of a page's rows at most, whose remainders the used rows are within their pages; else 0."""
    every, used = np.concatenate((due, stayed)), np.concatenate((taken, stayed))
    fit = (rows for rows in range(page // 2, 1, -1) if (used == every // page * page + every % page % rows).all())
    return next(fit, 0)


def _at_edge(due: Indices, taken: Indices, page: int) -> bool:
    """Whether rows of one edge of their pages alone are moved, all by a row or a page, or both."""
    steps = np.unique(taken - due)
    one = len(steps) == 1 and abs(int(steps[0])) in (1, page - 1, page, page + 1)
    return page > 1 and one and np.unique(due % page).tolist() in ([0], [page - 1])


def _window(due: Indices, taken: Indices, stayed: Indices) -> int:
    """The number whose remainders the used slots are, those that stayed being below it; 0 where there is none."""
    least = int(max(taken.max(initial=0), stayed.max(initial=0))) + 1
    common = int(np.gcd.reduce(due - taken))
    tried = np.arange(least, common + 1)
    found = tried[common % tried == 0]
    # Slots that are all moved by as many have a plainer account.
    return int(found[0]) if len(found) and len(np.unique(due - taken)) > 1 else 0


def _slots_of(part: Part, where: Indices) -> Indices | None:
    """The slot whose unit a place is, in the declared layout, unit by unit: `[n, units]`, or -1."""
    count = part.placed.dims[0] * part.placed.dims[1]
    if count * where.shape[1] > MOST:
        return None
    return slots_at(part.at_all(np.arange(count, dtype=np.int64)), where)


def _strides(part: Part, where: Indices, away: Mask) -> Iterator[Destination]:
    """One begin and one stride for pages, rows and heads that give the place of most units found.

    Scales of equal value may be found at each other's places, so each step is the one that most pairs of units agree
    on; whether it is right is for the bytes to say.
    """
    slots, page = part.side.rows.slots, part.placed.dims[1]
    item = part.due_at.shape[2] if part.kind == "scales" else 1
    blocks = where.shape[1] // part.placed.dims[2] if part.kind == "scales" else 1
    unit = np.arange(where.shape[1], dtype=np.int64)
    # Units that are as they may be have not moved; the others are told by where they are found.
    places = np.where(away, where, part.due_at[:, :, 0])
    known = away | ~part.bad
    rest = places - part.placed.offset - unit % blocks * item
    declared = part.placed.strides
    strides = list(declared)
    axes = (slots // page, slots % page, unit // blocks)
    for axis in (HEADS, 0, ROWS):
        step = _step(rest, known, axes, axis)
        if step is not None and step % item == 0:
            strides[axis] = step // item
        along = axes[axis] if axis == HEADS else axes[axis][:, None]
        rest = rest - along * (strides[axis] * item)
    begin = _most(rest[known])
    if begin is None or begin % item or (begin == 0 and tuple(strides) == declared):
        return
    used = msgspec.structs.replace(part.placed, offset=part.placed.offset + begin, strides=tuple(strides))
    shift = begin // item
    words = f", {shift:+d} elements from their begin" if shift else ""
    says = f"written with {named_strides(used)}{words}; declared {named_strides(part.placed)}"
    row = declared[0] if page == 1 else declared[1]
    if tuple(strides) == declared and row and shift % row == 0:
        says = f"written {shift // row:+d} rows from their own, {shift:+d} elements"
    fault = "cache-layout" if part.kind == "codes" else "scale-address"
    evidence: dict[str, int | float | str | list[int]] = {
        "strides_used": strides,
        "strides_declared": list(declared),
        "shift": shift,
    }
    yield Destination(fault, part.at(used), 4, says, evidence)


def _step(rest: Indices, known: Mask, axes: tuple[Indices, Indices, Indices], axis: int) -> int | None:
    """The step along one axis that most pairs of units agree on, which differ in no axis that is still open."""
    if axis == HEADS:
        apart = axes[2][1:] - axes[2][:-1]
        both = known[:, 1:] & known[:, :-1] & (apart > 0)
        return _most((rest[:, 1:] - rest[:, :-1])[both])
    tokens = np.arange(min(len(rest), PAIRED))
    one, other = (each.ravel() for each in np.meshgrid(tokens, tokens, indexing="ij"))
    apart = axes[axis][other] - axes[axis][one]
    # Pages are told by rows at the same place in them; then rows by any.
    fit = (apart > 0) & ((axes[1][one] == axes[1][other]) | (axis == ROWS))
    one, other, apart = one[fit], other[fit], apart[fit]
    both = known[one] & known[other]
    steps, over = (rest[other] - rest[one])[both], np.broadcast_to(apart[:, None], both.shape)[both]
    return _most(steps[steps % over == 0] // over[steps % over == 0])


def _most(values: Indices) -> int | None:
    """The most frequent value, the least of equals; None of none."""
    if not len(values):
        return None
    found, count = np.unique(values, return_counts=True)
    return int(found[np.argmax(count)])
