"""Where rows came from, whatever made their codes: by their signs, which every scale and rounding keeps.

The signs of a row's first 64 elements (32 of short rows) are a word that random data holds once. All such words of
memory are made in six passes and sought among the rows': linear in bytes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kvcheck.addresses import Offsets
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.reading import Own

Words = npt.NDArray[np.uint64]

#: Places that a row's signs may have before they are taken to say nothing.
CHOICES = 8
#: What share of the rows that were found a map must account for.
SHARE = 0.5

SIGN = 0x80


@dataclass(frozen=True)
class Origin:
    """Where rows begin: `token`, `head` and byte `address`, int64 `[m]`; a row may have several.

    Their elements are `inner` apart.
    """

    inner: int
    token: Offsets
    head: Offsets
    address: Offsets


@dataclass(frozen=True)
class Map:
    """An affine map: a row's elements lie at byte `base` + item * (token * `strides[0]` + ...). `rows` follow it."""

    base: int
    strides: tuple[int, int, int]
    rows: int


def origin(facts: Facts, source: Own) -> Origin:
    """Where the rows came from, by the step between their elements under which most are found."""
    other = facts.emission.placement.get("v" if source.tensor == "k" else "k")
    own = source.placed.strides[2]
    steps = dict.fromkeys((own, 1, other.strides[2], 2, source.placed.dims[1]))
    tried = [_origin(facts, source, step) for step in steps if step > 0]
    return max(tried, key=lambda each: len({*zip(each.token.tolist(), each.head.tolist(), strict=True)}))


def affine(source: Own, found: Origin) -> Map | None:
    """The map that most rows follow; None where it is not half of them."""
    at = found.address // source.item
    token: int | None = source.placed.strides[0]
    head: int | None = source.placed.strides[1]
    if len(set(found.head.tolist())) > 1:
        head = _step(found.head, found.token, at)
    if len(set(found.token.tolist())) > 1:
        token = _step(found.token, found.head, at)
    elif head is not None and token is not None and (only := int(found.token[0])):
        # Of one token alone, not the first, the pitch is a plainer account than the offset, which would move all.
        away = (found.address - source.base) // source.item - found.head * head - only * token
        shift = Counter(away.tolist()).most_common(1)[0][0]
        token += shift // only if shift % only == 0 else 0
    if token is None or head is None:
        return None
    bases = found.address - (found.token * token + found.head * head) * source.item
    ((base, rows),) = Counter(bases.tolist()).most_common(1)
    distinct = len({*zip(found.token.tolist(), found.head.tolist(), strict=True)})
    if rows < SHARE * distinct:
        return None
    return Map(base, (token, head, found.inner), rows)


def _step(along: Offsets, across: Offsets, at: Offsets) -> int | None:
    """The commonest whole step between rows that follow each other `along` one index, at one place `across`."""
    votes: Counter[int] = Counter()
    for place in set(across.tolist()):
        here = np.flatnonzero(across == place)
        by_index: dict[int, list[int]] = {}
        for index, where in zip(along[here].tolist(), at[here].tolist(), strict=True):
            by_index.setdefault(index, []).append(where)
        for (one, before), (two, after) in pairwise(sorted(by_index.items())):
            for first in before:
                for second in after:
                    step, rest = divmod(second - first, two - one)
                    if not rest:
                        votes[step] += 1
    return votes.most_common(1)[0][0] if votes else None


def _origin(facts: Facts, source: Own, step: int) -> Origin:
    width = 64 if source.placed.dims[2] >= 64 else 32
    nothing = np.zeros(0, np.int64)
    if source.placed.dims[2] < width:
        return Origin(step, nothing, nothing, nothing)
    row, head, word = _wanted(facts, source, width)
    sources = facts.sources(source.tensor)
    order = np.argsort(word, kind="stable")
    row, head, word = row[order], head[order], word[order]
    tokens, heads, places = [nothing], [nothing], [nothing]
    for start, data in facts.memory.pieces():
        phase = (source.base - start) % source.item
        signs = data[phase + source.item - 1 :: source.item] >> 7
        words = _words(signs.astype(np.uint64), width, step)
        first = np.searchsorted(word, words)
        hits = np.flatnonzero(word[np.minimum(first, len(word) - 1)] == words) if len(word) else nothing
        for hit in hits.tolist() if len(hits) <= CHOICES * len(word) else []:
            same = np.flatnonzero(word == words[hit])
            tokens.append(sources[row[same], head[same]])
            heads.append(head[same])
            places.append(np.full(len(same), start + phase + hit * source.item, np.int64))
    return Origin(step, np.concatenate(tokens), np.concatenate(heads), np.concatenate(places))


def _wanted(facts: Facts, source: Own, width: int) -> tuple[Offsets, Offsets, Words]:
    """The rows whose signs say something: index into the slots compared, head, and the word of their first signs."""
    codes = facts.emitted(source.tensor).codes[:, :, :width]
    magnitude = codes & (SIGN - 1)
    # A NaN has lost its sign; so has a zero where the contract, or a fault, drops it.
    lost = (magnitude == SIGN - 1) | (magnitude == 0)
    negative = (codes >= SIGN).sum(axis=2)
    varied = (negative >= width // 8) & (negative <= width - width // 8)
    row, head = np.nonzero(~lost.any(axis=2) & varied)
    bits = (codes[row, head] >> 7).astype(np.uint64) << np.arange(width, dtype=np.uint64)
    return row, head, np.bitwise_or.reduce(bits, axis=1) if len(row) else np.zeros(0, np.uint64)


def _words(signs: Words, width: int, step: int) -> Words:
    """At every element the signs of the `width` elements that follow, `step` apart: bit i is that of the i-th."""
    words, have = signs, 1
    while have < width:
        if len(words) <= have * step:
            return np.zeros(0, np.uint64)
        words = words[: -have * step] | (words[have * step :] << np.uint64(have))
        have *= 2
    return words
