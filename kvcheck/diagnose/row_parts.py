"""The part of a row, or block, whose amax a scale is: recovered from what the scales leave out, or from the codes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from msgspec.structs import replace

from kvcheck.diagnose.facts import Facts, Mask, Stored
from kvcheck.diagnose.groups import ULP
from kvcheck.diagnose.scale_fault import Made
from kvcheck.diagnose.scale_rules import applied_elements, by_rule, computed
from kvcheck.formats.scale import block_size, right_scales
from kvcheck.schema import Tensor


def part_of_row(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Some elements of each row, or block: up to one, from one on, every second, or all but some in the middle.

    Recovered from what is left out.
    """
    rule, right = computed(facts, emitted), facts.right(tensor).scales
    if rule is None or emitted.scale is None or right is None or right.all():
        return None
    by_block = rule.granularity.startswith("block:")
    if rule.granularity != "token_head" and not by_block:
        return None
    out, hits = _left_out(facts, tensor)
    # One value may be that of any element.
    if not out.any() or len(np.unique(emitted.scale[~right])) < 2:
        return None
    x = facts.values(tensor)
    name = "block" if by_block else "row"
    for words, taken in _parts(out, hits, name):
        if not taken[out].any() and hits[:, taken].any(axis=1).all():
            lanes = np.resize(taken, x.shape[2])
            says = f"scales are those of the largest magnitude of {words}"
            return by_rule(rule, np.where(lanes, x, np.float32(0)), says, population=words)
    return None


def _parts(out: Mask, hits: Mask, name: str) -> Iterator[tuple[str, Mask]]:
    """The parts of a row, or block, that may have been taken, the plainest first: words, and a mask of its lanes."""
    dim = out.shape[0]
    first, last = int(np.argmax(out)), dim - 1 - int(np.argmax(out[::-1]))
    lane = np.arange(dim)
    # Every scale is that of some element within; the roundest number between that and the first one left out.
    if (end := _roundest(_needed(hits), first)) is not None:
        yield f"each {name}'s first {end} elements", lane < end
    if (begin := _roundest(last + 1, dim - _needed(hits[:, ::-1]))) is not None:
        yield f"each {name}'s elements from {begin} on", lane >= begin
    for step in (2, 4):
        for rest in range(step):
            whose = "each element" if name == "row" else "each block's elements,"
            yield f"{whose} {rest} of {step}", lane % step == rest
    for rest in range(4):
        yield f"each {name}'s elements but every fourth from {rest} on", lane % 4 != rest
    for unit in (64, 32, 16, 8):
        begin, end = first // unit * unit, (last // unit + 1) * unit
        if begin > 0 and end < dim:
            yield f"each {name}'s elements but {begin} to {end - 1}", (lane < begin) | (lane >= end)


def of_a_part(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Each part of a row by its own amax, one of which is kept for all: programs that share a row."""
    rule, x = computed(facts, emitted), facts.values(tensor)
    right = facts.right(tensor).scales
    if rule is None or rule.granularity != "token_head" or emitted.scale is None or right is None:
        return None
    dim = x.shape[2]
    for size in dict.fromkeys((dim // 2, -(-dim // 2), dim // 4, *(1 << bit for bit in range(10, 3, -1)))):
        if not 1 < size < dim:
            continue
        scale = right_scales(replace(rule, granularity=f"block:{size}"), x)
        for which, words in ((-1, "last"), (0, "first")):
            kept = np.asarray(scale[:, :, which])
            with np.errstate(invalid="ignore"):
                near = np.abs(kept - emitted.scale) <= kept * np.float32(rule.declared_ulps * ULP)
            if not near[~right].all():
                continue
            scaled = applied_elements(facts, x, np.repeat(scale, size, axis=2)[:, :, :dim])
            says = (
                f"rows are taken in parts of {size} elements, each with a scale of its own in use; the {words} part's "
                f"is kept"
            )
            return Made(kept, says, {"part": size}, scaled=scaled, ulps=rule.declared_ulps)
    return None


@lru_cache(maxsize=4)
def _left_out(facts: Facts, tensor: Tensor) -> tuple[Mask, Mask]:
    """Lanes that some scale leaves out, being larger: `[dim]`; and, of each scale, the lanes it may be of.

    Of scales for blocks those of a block.
    """
    rule, emitted, x = computed(facts, facts.emitted(tensor)), facts.emitted(tensor).scale, facts.values(tensor)
    right = facts.right(tensor).scales
    assert rule is not None
    assert emitted is not None
    assert right is not None
    if rule.granularity.startswith("block:"):
        size = block_size(rule.granularity)
        x = np.pad(x, ((0, 0), (0, 0), (0, -x.shape[2] % size))).reshape(*x.shape[:2], -1, size)
    alone = right_scales(rule, x.reshape(-1, 1, 1)).reshape(x.shape)
    with np.errstate(invalid="ignore"):
        near = np.abs(alone - emitted[..., None]) <= emitted[..., None] * np.float32(2.0**-20)
        above = (alone > emitted[..., None]) & ~near
    lanes = x.shape[-1]
    return np.asarray(above.reshape(-1, lanes).any(axis=0)), np.asarray(near.reshape(-1, lanes))


def _needed(hits: Mask) -> int:
    """How many of the first lanes each scale needs, to be that of one of them; all where some scale is of none."""
    return int(np.argmax(hits, axis=1).max(initial=0)) + 1 if hits.any(axis=1).all() else hits.shape[1] + 1


def _roundest(low: int, high: int) -> int | None:
    """The number from `low` to `high` with most zeros at its end, in bits; None where there is none."""
    if low > high or high < 1:
        return None
    return max(range(max(low, 1), high + 1), key=lambda number: (number & -number, number))
