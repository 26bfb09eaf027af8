"""Where rows came from, whatever made their codes: by their signs, which every scale and rounding keeps.

The signs of a row's first 64 elements (32 of short rows) are a word that random data holds once. All words of 32 of
memory are made in five passes, and those whose lowest bits no row has are left out at once: linear in bytes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kvcheck.addresses import Offsets, among
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.reading import Own

Words = npt.NDArray[np.uint64]

#: Places that a row's signs may have before they are taken to say nothing.
CHOICES = 8
#: What share of the rows that were found a map must account for.
SHARE = 0.5

SIGN = 0x80

#: Lowest bits of a word by which most of memory is left out.
BITS = 20


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
    return max(tried, key=_rows)


def _rows(found: Origin) -> int:
    """How many (token, head) rows were found."""
    return len({*zip(found.token.tolist(), found.head.tolist(), strict=True)})


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
    if rows < SHARE * _rows(found):
        return None
    return Map(base, (token, head, found.inner), rows)


def _step(along: Offsets, across: Offsets, at: Offsets) -> int | None:
    """The commonest whole step between rows that follow each other `along` one index, at one place `across`."""
    lines: dict[int, dict[int, list[int]]] = {place: {} for place in set(across.tolist())}
    for place, index, where in zip(across.tolist(), along.tolist(), at.tolist(), strict=True):
        lines[place].setdefault(index, []).append(where)
    votes: Counter[int] = Counter()
    for line in lines.values():
        for (one, before), (two, after) in pairwise(sorted(line.items())):
            if len(before) * len(after) > CHOICES**2:
                continue
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
        signs = data[phase + source.item - 1 :: source.item] >> np.uint8(7)
        at, words = _found(signs, word, width, step)
        first = np.searchsorted(word, words)
        count = np.searchsorted(word, words, side="right") - first
        if count.sum() > CHOICES * len(word):
            continue
        # Every row whose signs these are: `count` of them from `first` on, for each place.
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        same = np.repeat(first, count) + within
        tokens.append(sources[row[same], head[same]])
        heads.append(head[same])
        places.append(np.repeat(start + phase + at * source.item, count))
    return Origin(step, np.concatenate(tokens), np.concatenate(heads), np.concatenate(places))


def _found(signs: npt.NDArray[np.uint8], wanted: Words, width: int, step: int) -> tuple[Offsets, Words]:
    """Where one of the `wanted` words, ascending, stands in memory: the first element of each, and the word."""
    low = _words(signs, step)
    # Few of memory's words have lowest bits that any row has: these alone are made in full.
    seen = np.zeros(1 << BITS, np.bool_)
    seen[(wanted & np.uint64(len(seen) - 1)).astype(np.int64)] = True
    rest = max(len(low) - (width - 32) * step, 0)
    at = np.flatnonzero(seen[low[:rest] & np.uint32(len(seen) - 1)])
    words = low[at].astype(np.uint64)
    if width > 32:
        words |= low[at + 32 * step].astype(np.uint64) << np.uint64(32)
    hits = among(words, wanted)
    return at[hits], words[hits]


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


def _words(signs: npt.NDArray[np.uint8], step: int) -> npt.NDArray[np.uint32]:
    """At every element the signs of the 32 elements that follow, `step` apart: bit i is that of the i-th."""
    words, have = signs.astype(np.uint32), 1
    while have < 32:
        if len(words) <= have * step:
            return np.zeros(0, np.uint32)
        words = words[: -have * step] | (words[have * step :] << np.uint32(have))
        have *= 2
    return words
