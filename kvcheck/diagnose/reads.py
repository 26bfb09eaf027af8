"""Faults of the addresses that K and V are read from: each a few readings that such a kernel would have.

Every reading is exact to the element, inside the tensor or beyond it: memory before the launch is known, so what a
kernel finds there is, too. Pitches and offsets are in elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from kvcheck.addresses import Offsets
from kvcheck.diagnose import lanes, received
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts
from kvcheck.diagnose.image import MASKED
from kvcheck.diagnose.reading import Own, Reading, explanation, own, shows, unlike
from kvcheck.views import Shape, view

Readings: TypeAlias = Callable[[Facts, Own], Iterator[Reading]]

#: Integers that an offset may have been squeezed into.
NARROW: tuple[tuple[int, bool], ...] = ((32, True), (32, False), (16, True), (16, False))

#: The usual head maps: that of the next head, and a head of the source for two of the cache.
HEAD_FORMS = ("the next head", "a head for two")
#: The usual narrow integers: the one that kernels really use, and a smaller one that needs no tensor of 2^31 elements.
WRAP_FORMS = {32: "source rows in signed 32 bits", 16: "source rows in signed 16 bits"}
#: Elements of a vector that rows are usually taken to be multiples of.
VECTOR = 8
TAIL_FORM = "read up to a power of two"
SIBLING_FORM = "the sibling's rows"


class ReadFault:
    """A named way to read K or V from elsewhere."""

    def __init__(
        self, slug: str, readings: Readings, forms: tuple[str, ...] = ("",), usual: Readings | None = None
    ) -> None:
        """`readings` are its ways, the plainest first; `forms` the names of those that are usual.

        `usual` gives those of them that are, where they are few of many.
        """
        self.slug = slug
        self.forms = forms
        self._readings = readings
        self._usual = usual or readings

    def readings(self, facts: Facts) -> Iterator[Reading]:
        """The forms that take some stored token's element from another place than a right kernel."""
        for tensor in TENSORS:
            source = own(facts, tensor)
            if source is not None:
                yield from unlike(facts, source, self._readings(facts, source))

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether the usual forms would leave another byte than a right kernel, K and V read by one rule."""
        shown = dict.fromkeys(self.forms, False)
        for tensor in TENSORS:
            source = own(facts, tensor)
            if source is None:
                continue
            for each in self._usual(facts, source):
                if each.usual is not None and not shown[each.usual]:
                    shown[each.usual] = shows(facts, source, each)
                    if all(shown.values()):
                        return shown
        return shown

    def explanations(self, facts: Facts) -> list[Explanation]:
        """The forms that explain at least half of a tensor's wrong codes."""
        wrong = [tensor for tensor in TENSORS if not facts.all_right(tensor)]
        tried = [each for each in self.readings(facts) if each.tensor in wrong] if wrong else []
        return [made for each in tried if (made := explanation(facts, each)) is not None]


def _strides(
    slug: str, source: Own, strides: tuple[int, ...], how: str, cost: int = 1, base: int | None = None
) -> Reading:
    """A reading by other strides."""
    evidence: dict[str, int | float | str | list[int]] = {"strides_used": list(strides)}
    return Reading(slug, source.tensor, source.strided(strides, base), how, cost, evidence)


def _dense_heads(facts: Facts, source: Own) -> Iterator[Reading]:
    """Heads `head_dim` apart; and rows `heads x head_dim` apart."""
    _, heads, dim = source.placed.dims
    token, head, inner = source.placed.strides
    slug = "dense-heads"
    plain = _strides(slug, source, (token, dim, inner), f"with head pitch {dim} (dense); declared {head}")
    if received.strides(facts.emission, "v" if source.tensor == "k" else "k")[1] == dim:
        plain = replace(plain, evidence={**plain.evidence, "alike": "sibling-pitch"})
    yield replace(plain, usual="")
    yield _strides(slug, source, (token, dim * inner, inner), f"with head pitch {dim * inner} (dense); declared {head}")
    row = heads * dim
    yield _strides(
        slug, source, (row, head, inner), f"with token pitch {row} (dense: heads x head_dim); declared {token}"
    )
    how = f"with token pitch {row} and head pitch {dim} (dense); declared {token} and {head}"
    yield _strides(slug, source, (row, dim, inner), how, 2)


def _inner_stride(_facts: Facts, source: Own) -> Iterator[Reading]:
    """Elements side by side."""
    _, heads, dim = source.placed.dims
    token, head, inner = source.placed.strides
    if inner != 1:
        how = f"with inner stride 1; declared {inner}"
        yield replace(_strides("inner-stride-ignored", source, (token, head, 1), how), usual="")
        how = f"with inner stride 1 and head pitch {dim}; declared {inner} and {head}"
        yield _strides("inner-stride-ignored", source, (token, dim, 1), how, 2)
        how = f"as if dense, with strides {(heads * dim, dim, 1)}; declared {source.placed.strides}"
        yield _strides("inner-stride-ignored", source, (heads * dim, dim, 1), how, 2)


def _offset(facts: Facts, source: Own) -> Iterator[Reading]:
    """From the beginning of the memory that the tensor is a view of: its parent's, its allocation's, a sibling's."""
    case = facts.emission.case
    dim = source.placed.dims[2]
    shape = Shape(source.tensor, case.rows, case.heads, dim, case.head_dim, case.dim_v)
    offset = view(case.k_view if source.tensor == "k" else case.v_view, shape).offset
    begins = facts.emission.addresses[source.placed.allocation]
    within = source.placed.offset // source.item
    for away, whose in ((offset, "the beginning of its parent"), (within, "the beginning of its storage")):
        base = source.base - away * source.item if whose.endswith("parent") else begins
        how = f"from {whose}, {away} elements before its first one"
        reading = _strides("offset-ignored", source, source.placed.strides, how, 1, base)
        yield replace(
            reading,
            evidence={**reading.evidence, "offset_used": 0, "offset_declared": away},
            usual="" if base == begins else None,
        )


def _heads(_facts: Facts, source: Own) -> Iterator[Reading]:
    """A constant map of heads: neighbours, groups, the reverse."""
    heads = source.placed.dims[1]
    index = np.arange(heads, dtype=np.int64)
    maps: list[Offsets] = [(index + 1) % heads, (index - 1) % heads, heads - 1 - index, np.zeros_like(index)]
    for size in range(2, max(heads, 3)):
        maps += [index // size, index % size, index * size % heads]
        if heads % size == 0:
            maps.append(index % size * (heads // size) + index // size)
    usual = {0: HEAD_FORMS[0], 4: HEAD_FORMS[1]}
    for position, each in enumerate(maps):
        yield replace(head_reading(source, each), usual=usual.get(position))


def head_reading(source: Own, mapped: Offsets) -> Reading:
    """A reading whose head h is the tensor's head `mapped[h]`."""
    token, head, inner = source.placed.strides
    places = source.at(source.token * token + mapped[None, :, None] * head + source.dim * inner)
    how = f"with heads {mapped.tolist()} for heads 0 to {len(mapped) - 1}"
    return Reading("head-mapping", source.tensor, places, how, 2, {"heads_used": mapped.tolist()})


def _wrap(_facts: Facts, source: Own) -> Iterator[Reading]:
    """Offsets kept in an integer that is too narrow: the row's, the head's with it, the element's; also in bytes."""
    token, head, inner = source.placed.strides
    row = source.token * token
    parts = (
        ("row", row, source.head * head + source.dim * inner),
        ("row and head", row + source.head * head, source.dim * inner),
        ("element", row + source.head * head + source.dim * inner, np.zeros(1, np.int64)),
    )
    span = {name: (int(narrow.min()), int(narrow.max())) for name, narrow, _ in parts}
    for bits, signed in NARROW:
        for part in parts:
            for unit, says in ((1, ""), (source.item, " in bytes")):
                least, most = span[part[0]]
                if least >= 0 and most * unit < 1 << (bits - 1):
                    continue  # none is too large
                yield _wrapped(source, part, bits, signed=signed, unit=unit, says=says)


def _wrap_usual(_facts: Facts, source: Own) -> Iterator[Reading]:
    """The row's alone, in elements and with a sign."""
    token, head, inner = source.placed.strides
    part = ("row", source.token * token, source.head * head + source.dim * inner)
    for bits, usual in WRAP_FORMS.items():
        yield replace(_wrapped(source, part, bits, signed=True, unit=1, says=""), usual=usual)


def _wrapped(
    source: Own, part: tuple[str, Offsets, Offsets], bits: int, *, signed: bool, unit: int, says: str
) -> Reading:
    name, narrow, rest = part
    offsets = _narrowed(narrow * unit, bits, signed=signed) // unit + rest
    kind = "signed" if signed else "unsigned"
    how = f"with the {name}'s offset{says} wrapped in {kind} {bits} bits"
    return Reading("index-wrap", source.tensor, source.at(offsets), how, 1, {"bits": bits, "signed": int(signed)})


def _narrowed(offsets: Offsets, bits: int, *, signed: bool) -> Offsets:
    """Offsets modulo 2^bits, sign-extended or not."""
    wrapped = offsets & ((1 << bits) - 1)
    return np.where(wrapped >= 1 << (bits - 1), wrapped - (1 << bits), wrapped) if signed else wrapped


def _misaligned(_facts: Facts, source: Own) -> Iterator[Reading]:
    """Rows that begin with the vector that their first element is in: by offset from the tensor, or by address."""
    token, head, inner = source.placed.strides
    begin = source.token * token + source.head * head
    along = source.dim * inner
    for size in (16, 8, 4, 32):
        elements = size // source.item
        if elements < 2:
            continue
        evidence: dict[str, int | float | str | list[int]] = {"vector_bytes": size}
        rounded = begin // elements * elements
        how = f"in vectors of {size} bytes, each row's offset rounded down to one"
        usual = "" if elements == VECTOR else None
        yield Reading("misaligned", source.tensor, source.at(rounded + along), how, 1, evidence, usual)
        address = (source.base + begin * source.item) // size * size
        how = f"in vectors of {size} bytes, each row's address rounded down to one"
        yield Reading("misaligned", source.tensor, source.at(along, 0) + address, how, 1, evidence)


def _tail(facts: Facts, source: Own) -> Iterator[Reading]:
    """Elements beyond a power of two, whole vectors or the sibling's head_dim: masked away, repeated or wrapped."""
    size = source.placed.dims[2]
    case = facts.emission.case
    ends = {1 << (size.bit_length() - 1), size // 8 * 8, size // 4 * 4, size - 1}
    ends.add(case.head_dim if source.tensor == "v" else case.dim_v)
    right = source.strided(source.placed.strides)
    for end in sorted((each for each in ends if 0 < each < size), reverse=True):
        evidence: dict[str, int | float | str | list[int]] = {"elements_read": end, "head_dim": size}
        masked = np.where(source.dim < end, right, MASKED)
        yield Reading(
            "tail-mask",
            source.tensor,
            masked,
            f"up to element {end} of {size}, zero beyond",
            1,
            evidence,
            TAIL_FORM if end == 1 << (size.bit_length() - 1) else None,
        )
        wrapped, last = right[:, :, np.arange(size) % end], right[:, :, np.minimum(np.arange(size), end - 1)]
        how = f"up to element {end} of {size}, then from the row's first again"
        yield Reading("tail-mask", source.tensor, wrapped, how, 1, evidence)
        yield Reading(
            "tail-mask", source.tensor, last, f"up to element {end} of {size}, then that one again", 1, evidence
        )


def _foreign(facts: Facts, source: Own) -> Iterator[Reading]:
    """The sibling's rows, and rows of neighbouring tokens."""
    other = own(facts, "v" if source.tensor == "k" else "k")
    if other is not None:
        name = other.tensor.upper()
        how = f"from {name}, with {name}'s strides"
        yield replace(_strides("foreign-read", source, other.placed.strides, how, 1, other.base), usual=SIBLING_FORM)
        how = f"from {name}, with its own strides"
        yield _strides("foreign-read", source, source.placed.strides, how, 2, other.base)
    token, head, inner = source.placed.strides
    count, _, dim = source.placed.dims
    for tokens in dict.fromkeys((count, facts.emission.case.tokens)):
        how = f"as in [heads, tokens, head_dim], with token pitch {dim} and head pitch {tokens * dim}"
        how += f"; declared {token} and {head}"
        yield _strides("foreign-read", source, (dim, tokens * dim, inner), how, 2)
    along = source.head * head + source.dim * inner
    for mapped, how in (
        (source.token + 1, "one token late: token t from row t + 1"),
        (source.token - 1, "one token early: token t from row t - 1"),
        (count - 1 - source.token, "with its tokens in reverse"),
        (source.token * 0, "from its first token for all of them"),
    ):
        yield Reading("foreign-read", source.tensor, source.at(mapped * token + along), how, 2)


def _none(_facts: Facts, _source: Own) -> Iterator[Reading]:
    """No usual way."""
    return iter(())


DENSE_HEADS = ReadFault("dense-heads", _dense_heads)
INNER_STRIDE = ReadFault("inner-stride-ignored", _inner_stride)
OFFSET = ReadFault("offset-ignored", _offset)
HEAD_MAPPING = ReadFault("head-mapping", _heads, HEAD_FORMS)
INDEX_WRAP = ReadFault("index-wrap", _wrap, tuple(WRAP_FORMS.values()), _wrap_usual)
MISALIGNED = ReadFault("misaligned", _misaligned)
TAIL_MASK = ReadFault("tail-mask", _tail, (TAIL_FORM,))
FOREIGN_READ = ReadFault("foreign-read", _foreign, (SIBLING_FORM,))
READS = (
    DENSE_HEADS,
    INNER_STRIDE,
    OFFSET,
    HEAD_MAPPING,
    INDEX_WRAP,
    MISALIGNED,
    TAIL_MASK,
    FOREIGN_READ,
    # Recovered from what was stored: a pass says nothing of them.
    ReadFault("tail-mask", lanes.tails, (), _none),
    ReadFault("foreign-read", lanes.elements, (), _none),
)
