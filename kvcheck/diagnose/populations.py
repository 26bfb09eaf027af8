"""Populations of an amax that are not a scale's own: other elements of a row, other rows, the sibling's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kvcheck.contract import Computed
from kvcheck.diagnose.facts import Facts, Floats, Stored
from kvcheck.diagnose.groups import kept_by
from kvcheck.diagnose.other_parts import of_other_parts
from kvcheck.diagnose.row_parts import of_a_part, part_of_row
from kvcheck.diagnose.scale_fault import Form, Made
from kvcheck.diagnose.scale_rules import by_rule, computed
from kvcheck.diagnose.turns import turns
from kvcheck.formats.scale import block_size
from kvcheck.schema import Tensor

#: The values whose amax is taken for that of the row `[n, heads, dim]`; None where this tensor has none such.
Values = Callable[[Facts, Tensor, Floats], Floats | None]


def _population(words: str, values: Values) -> Form:
    """Scales of other values than the row's own."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        rule = computed(facts, emitted)
        found = None if rule is None else values(facts, tensor, facts.values(tensor))
        if rule is None or found is None:
            return None
        says = f"scales are those of the largest magnitude of {words}"
        return by_rule(rule, found, says, population=words)

    return form


def _magnitudes(x: Floats) -> Floats:
    """Magnitudes, NaN as nothing."""
    return np.where(np.isnan(x), np.float32(0), np.abs(x))


def _whole_token(facts: Facts, tensor: Tensor, x: Floats) -> Floats:  # noqa: ARG001 - one signature for all
    return np.broadcast_to(_magnitudes(x).max(axis=(1, 2), keepdims=True), x.shape)


def _first_half(facts: Facts, tensor: Tensor, x: Floats) -> Floats:  # noqa: ARG001
    return np.where(np.arange(x.shape[2]) < x.shape[2] // 2, x, np.float32(0))


def _second_half(facts: Facts, tensor: Tensor, x: Floats) -> Floats:  # noqa: ARG001
    return np.where(np.arange(x.shape[2]) >= x.shape[2] // 2, x, np.float32(0))


def _positive(facts: Facts, tensor: Tensor, x: Floats) -> Floats:  # noqa: ARG001
    return np.where(x < 0, np.float32(0), x)


def _negative(facts: Facts, tensor: Tensor, x: Floats) -> Floats:  # noqa: ARG001
    return np.where(x > 0, np.float32(0), x)


def _sibling(tensor: Tensor) -> Tensor:
    return "v" if tensor == "k" else "k"


def _both(facts: Facts, tensor: Tensor, x: Floats) -> Floats:
    other = facts.values(_sibling(tensor))
    return x if other.shape != x.shape else np.fmax(np.abs(x), np.abs(other))


def _siblings(facts: Facts, tensor: Tensor, x: Floats) -> Floats | None:
    other = facts.values(_sibling(tensor))
    if other.shape[:2] != x.shape[:2]:
        return None
    return np.broadcast_to(_magnitudes(other).max(axis=2, keepdims=True), x.shape)


def _half_range(facts: Facts, tensor: Tensor, x: Floats) -> Floats:  # noqa: ARG001
    some = np.where(np.isnan(x), np.float32(0), x)
    with np.errstate(all="ignore"):
        half = (some.max(axis=2, keepdims=True) - some.min(axis=2, keepdims=True)) * np.float32(0.5)
    return np.broadcast_to(np.asarray(half, np.float32), x.shape)


def _tensor(facts: Facts, tensor: Tensor, x: Floats) -> Floats:
    every = _magnitudes(facts.values(tensor, facts.stored_tokens))
    return np.broadcast_to(every.max(axis=(0, 1, 2), keepdims=True, initial=0), x.shape)


def _all_tokens(facts: Facts, tensor: Tensor, x: Floats) -> Floats:
    every = _magnitudes(facts.values(tensor, facts.stored_tokens))
    return np.broadcast_to(every.max(axis=(0, 2), keepdims=True, initial=0), x.shape)


def _token_along(step: int) -> Values:
    def values(facts: Facts, tensor: Tensor, x: Floats) -> Floats | None:
        """Rows of the token `step` on, of those that there are."""
        every = facts.values(tensor, np.arange(facts.emission.case.rows, dtype=np.int64))
        index = facts.tokens + step
        return every[np.clip(index, 0, len(every) - 1)] if len(every) and x.size else None

    return values


def _with_token(step: int) -> Values:
    def values(facts: Facts, tensor: Tensor, x: Floats) -> Floats | None:
        """The row, and that of the token `step` on, where there is one."""
        found = _token_along(step)(facts, tensor, x)
        return None if found is None else np.maximum(_magnitudes(x), _magnitudes(found))

    return values


def _head_along(step: int) -> Values:
    def values(facts: Facts, tensor: Tensor, x: Floats) -> Floats | None:  # noqa: ARG001
        return np.roll(x, -step, axis=1) if x.shape[1] > 1 else None

    return values


def _whole_head(facts: Facts, tensor: Tensor, x: Floats) -> Floats:  # noqa: ARG001
    return np.broadcast_to(_magnitudes(x).max(axis=2, keepdims=True, initial=0), x.shape)


def _heads_so_far(facts: Facts, tensor: Tensor, x: Floats) -> Floats:  # noqa: ARG001
    largest = _magnitudes(x).max(axis=2, keepdims=True, initial=0)
    return np.broadcast_to(np.maximum.accumulate(largest, axis=1), x.shape)


def _tokens_so_far(facts: Facts, tensor: Tensor, x: Floats) -> Floats:
    """Of the tokens that are stored, in their order."""
    largest = _magnitudes(facts.values(tensor, facts.stored_tokens)).max(axis=2, keepdims=True, initial=0)
    return np.broadcast_to(np.maximum.accumulate(largest, axis=0)[facts.compared], x.shape)


def _program_so_far(apart: int) -> Values:
    """Rows of tokens and heads, so many `apart`, that one program takes, with one amax that nothing resets."""

    def values(facts: Facts, tensor: Tensor, x: Floats) -> Floats:
        heads = x.shape[1]
        count = -(-facts.emission.case.tokens * heads // apart) * apart
        largest = np.zeros(count, np.float32)
        rows = facts.stored_tokens[:, None] * heads + np.arange(heads)
        largest[rows] = _magnitudes(facts.values(tensor, facts.stored_tokens)).max(axis=2, initial=0)
        so_far = np.maximum.accumulate(largest.reshape(-1, apart), axis=0).reshape(-1)
        return np.broadcast_to(so_far[rows][facts.compared][:, :, None], x.shape)

    return values


def _one_head(head: int) -> Values:
    def values(facts: Facts, tensor: Tensor, x: Floats) -> Floats | None:  # noqa: ARG001
        return np.broadcast_to(x[:, [head]], x.shape) if x.shape[1] > 1 else None

    return values


def _dealt(facts: Facts, tensor: Tensor, x: Floats) -> Floats:  # noqa: ARG001
    """A token's elements dealt to its heads in turns, as a wrong axis of a reshaped row has them."""
    largest = _magnitudes(x).reshape(len(x), x.shape[2], x.shape[1]).max(axis=1, initial=0)
    return np.broadcast_to(largest[:, :, None], x.shape)


def _first_of(size: int) -> Values:
    def values(facts: Facts, tensor: Tensor, x: Floats) -> Floats | None:
        """The row of the first token of those that are taken together, stored or not."""
        every = facts.values(tensor, np.arange(facts.emission.case.rows, dtype=np.int64))
        return every[facts.tokens // size * size] if x.size else None

    return values


def _block_along(lanes: int) -> Values:
    def values(facts: Facts, tensor: Tensor, x: Floats) -> Floats | None:  # noqa: ARG001
        return np.roll(x, -lanes, axis=2) if abs(lanes) < x.shape[2] else None

    return values


def _blocks_together(lanes: int) -> Values:
    def values(facts: Facts, tensor: Tensor, x: Floats) -> Floats | None:  # noqa: ARG001
        if lanes >= x.shape[2]:
            return None
        top = np.maximum.reduceat(_magnitudes(x), np.arange(0, x.shape[2], lanes), axis=2)
        return np.repeat(top, lanes, axis=2)[:, :, : x.shape[2]]

    return values


#: The populations that are tried in every tensor, by their words.
POPULATIONS: dict[str, Form] = {
    words: _population(words, values)
    for words, values in (
        ("the whole token", _whole_token),
        ("each row's first half", _first_half),
        ("each row's second half", _second_half),
        ("the positive elements", _positive),
        ("K and V together", _both),
    )
}


def _fixed(facts: Facts, rule: Computed) -> Iterator[tuple[str, Values]]:
    if rule.granularity.startswith("block:"):
        size = block_size(rule.granularity)
        yield "the whole head", _whole_head
        for step, words in ((1, "behind"), (-1, "before")):
            yield f"the block {words}", _block_along(step * size)
        for count in (2, 4, 8):
            yield f"{count} blocks together", _blocks_together(count * size)
    if rule.granularity == "token":
        yield "the first head", _one_head(0)
        yield "the last head", _one_head(-1)
    yield "the negative elements", _negative
    yield "each head and those before it", _heads_so_far
    yield "each token and those before it", _tokens_so_far
    for named, apart in turns(facts.emission.case.heads):
        yield f"each row and those before it{named}", _program_so_far(apart)
    yield "the sibling's row", _siblings
    yield "half the range from least to greatest value", _half_range
    yield "each head over all tokens", _all_tokens
    yield "all tokens and heads", _tensor
    yield "the token's elements, dealt to its heads in turns", _dealt
    for step, words in ((1, "behind"), (-1, "before")):
        yield f"the token {words}", _token_along(step)
        yield f"the head {words}", _head_along(step)
        yield f"each row and that of the token {words}", _with_token(step)
    for size in _sizes(facts.emission.case.heads):
        yield f"heads in groups of {size}", _head_groups(size)
    for size in _sizes(facts.emission.case.rows):
        yield f"tokens in groups of {size}", _token_groups(size)
        yield f"the first of every {size} tokens", _first_of(size)
    yield "the first token", _first_of(max(facts.emission.case.rows, 1))


def _sizes(count: int) -> list[int]:
    """Powers of two and divisors below a count: what rows are taken together by."""
    return [size for size in range(2, count) if count % size == 0 or size & (size - 1) == 0]


def _head_groups(size: int) -> Values:
    def values(facts: Facts, tensor: Tensor, x: Floats) -> Floats:  # noqa: ARG001
        largest = _magnitudes(x).max(axis=2)
        starts = np.arange(0, x.shape[1], size)
        top = np.maximum.reduceat(largest, starts, axis=1)
        return np.broadcast_to(np.repeat(top, size, axis=1)[:, : x.shape[1], None], x.shape)

    return values


def _token_groups(size: int) -> Values:
    def values(facts: Facts, tensor: Tensor, x: Floats) -> Floats | None:
        """Rows of one program that takes so many tokens, those that are not stored left out."""
        count = facts.emission.case.rows
        largest = np.zeros((count, x.shape[1]), np.float32)
        largest[facts.stored_tokens] = _magnitudes(facts.values(tensor, facts.stored_tokens)).max(axis=2)
        top = np.maximum.reduceat(largest, np.arange(0, count, size), axis=0)
        return np.broadcast_to(np.repeat(top, size, axis=0)[facts.tokens][:, :, None], x.shape)

    return values


def every_population(facts: Facts, rule: Computed) -> Iterator[Form]:
    """All populations that are tried, by their forms."""
    yield from POPULATIONS.values()
    for words, values in _fixed(facts, rule):
        yield _population(words, values)


def among_known(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The first of the fixed populations that gives most of the wrong scales."""
    best: tuple[int, Made] | None = None
    rule, right = computed(facts, emitted), facts.right(tensor).scales
    if rule is None or right is None or right.all():
        return None
    for words, values in _fixed(facts, rule):
        made = _population(words, values)(facts, tensor, emitted)
        if made is None or made.scale is None:
            continue
        kept = kept_by(made.rule, made.values, emitted, made.scale, 0)
        if kept is None or (right & ~kept).any():
            continue
        count = int((kept & ~right).sum())
        if count and (best is None or count > best[0]):
            best = (count, made)
    return None if best is None else best[1]


#: Populations that are recovered from the scales.
RECOVERED: tuple[Form, ...] = (among_known, part_of_row, of_a_part, of_other_parts)
