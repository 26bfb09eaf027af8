"""The table: a kernel with one fault a row, where the default matrix must show it, and where it cannot.

`shows` and `hides` say so from the case alone, before anything is run. Between them lie cases in which it depends on
the values drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from kvcheck.contract import Accepts, Contract, Form
from kvcheck.memory.place import place
from kvcheck.schema import Case

from .channels import Channel

Predicate: TypeAlias = Callable[[Case], bool]

#: Values of which two rows, or a row and poison, are never taken for each other.
PLAIN = {"normal*2^-20", "normal*0.01", "normal", "normal*5", "outlier", "offset"}
#: Values that a given scale of 2^-4, or half of 0.0123, never saturates, nor turns poison into zeros.
SMALL = {"normal*2^-20", "normal*0.01"}
#: Values of which no two rows have one amax.
NORMAL = {"normal*2^-20", "normal*0.01", "normal", "normal*5", "outlier"}
#: Values with 448 in every row.
ANCHORED = {"grid", "midpoints", "subnormal_codes", "negative_zero", "traps"}
#: Slots of which every token has one of its own.
OWN_SLOTS = {"ascending", "permuted", "last", "page_edges"}
#: Views of which every head has a gap behind it.
GAPS = {"head_padded", "head_interleaved", "inner2"}


@dataclass(frozen=True)
class Row:
    """One faulty kernel: `file` and `target` name it; a case that `shows` it fails by all `channels`.

    It may fail by some of `also`, and by no other. A case that `hides` it passes.
    """

    about: str
    file: str
    target: str
    channels: frozenset[Channel]
    shows: Predicate
    hides: Predicate
    also: frozenset[Channel] = frozenset()

    @property
    def outcome(self) -> str:
        """The outcome of a case that shows the fault: that of the worst channel."""
        if "crash" in self.channels:
            return "crash"
        return "violation" if self.channels == {"independence"} else "mismatch"


def _stored(case: Case) -> bool:
    """Whether every token is stored, and there is one."""
    return case.tokens > 0 and case.slots in OWN_SLOTS


def _nothing_stored(case: Case) -> bool:
    return case.tokens == 0 or case.slots == "all_negative"


def _values(case: Case) -> tuple[str, str]:
    return case.k_values, case.v_values


def _in_arena(case: Case) -> bool:
    """Whether V's last stored row ends before a guard of larger values."""
    return _stored(case) and case.extra_tokens == 0 and (case.layout, case.poison) == ("arena", "values")


def _is_power(count: int) -> bool:
    return count & (count - 1) == 0


def _dims_are_powers(case: Case) -> bool:
    return _is_power(case.head_dim) and _is_power(case.dim_v)


def _heads_are_power(case: Case) -> bool:
    return _is_power(case.heads)


def _pitches(case: Case) -> tuple[int, int]:
    """The distances between tokens of K and of V, in elements."""
    placement = place(case, Contract(scale=None), Form(), Accepts(), cuda=False)
    return placement.get("k").strides[0], placement.get("v").strides[0]


def _unlike_pitch(case: Case) -> bool:
    """Whether V read with K's pitch gets other rows: of more than one, in which no two are alike."""
    k, v = _pitches(case)
    return k != v and case.tokens > 1 and _stored(case) and case.v_values in PLAIN and case.v_view != "expanded"


def _one_pitch(case: Case) -> bool:
    k, v = _pitches(case)
    return k == v or case.tokens < 2


def _sparse(case: Case) -> list[bool]:
    """Whether K's rows are further apart, or nearer, than they are wide; and V's."""
    return [pitch != case.heads * dim for pitch, dim in zip(_pitches(case), (case.head_dim, case.dim_v), strict=True)]


def _shows_in_values(case: Case, kinds: set[str]) -> bool:
    """Whether values of these kinds are stored, and not hidden by a view that repeats the first row."""
    sides = zip(_values(case), (case.k_view, case.v_view), strict=True)
    return _stored(case) and any(kind in kinds and view != "expanded" for kind, view in sides)


def _has_no_values(case: Case, kinds: set[str]) -> bool:
    return not kinds & set(_values(case))


POISON = (
    Row(
        "an amax one lane too wide", "poison", "wide-amax", frozenset({"codes", "scales"}),
        shows=lambda case: _in_arena(case) and case.v_values in PLAIN,
        hides=lambda case: case.layout == "pooled" and {*_values(case)} <= ANCHORED,
    ),
    Row(
        "a gap read under a static scale", "poison", "gap-read", frozenset({"codes"}),
        shows=lambda case: _in_arena(case) and case.v_values in SMALL,
        hides=_nothing_stored,
    ),
    Row(
        "a gap's NaN times zero (63)", "poison", "nan-gap", frozenset({"codes"}),
        shows=lambda case: _stored(case) and (case.layout, case.poison) == ("arena", "nan")
        and case.tokens * case.heads >= 8 and (
            (case.v_view in GAPS and case.v_values in PLAIN | ANCHORED)
            or (case.k_view in GAPS and case.k_values in PLAIN | ANCHORED)
        ),
        hides=lambda case: case.poison == "values" and _has_no_values(case, {"nan", "inf"}),
    ),
    Row(
        "an out-of-row read that changes only the scale", "poison", "scale-reads-out-of-row", frozenset({"scales"}),
        shows=lambda case: _in_arena(case) and case.v_values in PLAIN,
        hides=lambda case: case.layout == "pooled" and {*_values(case)} <= ANCHORED,
    ),
    Row(
        "a lost last element", "poison", "lost-last-element", frozenset({"lost"}),
        shows=_stored,
        hides=_nothing_stored,
    ),
    Row(
        "a write into a gap", "poison", "gap-write", frozenset({"stray"}),
        shows=lambda case: _stored(case) and "head_padded" in (case.k_cache, case.v_cache),
        hides=lambda case: "head_padded" not in (case.k_cache, case.v_cache),
    ),
    Row(
        "uninitialised memory decides", "poison", "running-scale", frozenset({"codes", "scales"}),
        shows=lambda case: _stored(case) and case.tokens * case.heads >= 15 and {*_values(case)} <= PLAIN,
        hides=_nothing_stored,
        also=frozenset({"lost"}),
    ),
    Row(
        "uninitialised memory decides what is legal either way", "poison", "nudged-scale", frozenset({"independence"}),
        shows=lambda case: _stored(case) and case.tokens * case.heads >= 15 and {*_values(case)} <= PLAIN,
        hides=_nothing_stored,
    ),
)  # fmt: skip

ADDRESSES = (
    Row(
        "A1: one pitch for K and V", "addresses", "a1-one-pitch", frozenset({"codes", "scales"}),
        shows=_unlike_pitch,
        hides=_one_pitch,
        also=frozenset({"independence"}),
    ),
    Row(
        "A15: the row's width for its pitch", "addresses", "a15-row-width", frozenset({"codes", "scales"}),
        shows=lambda case: _stored(case) and case.tokens > 1 and any(_sparse(case)) and {*_values(case)} <= PLAIN,
        hides=lambda case: case.tokens < 2 or not any(_sparse(case)),
        also=frozenset({"independence"}),
    ),
    Row(
        "A16: a stride of zero for none", "addresses", "a16-stride-zero", frozenset({"codes", "scales"}),
        shows=lambda case: _stored(case) and case.tokens > 1 and "expanded" in (case.k_view, case.v_view)
        and {*_values(case)} <= PLAIN,
        hides=lambda case: "expanded" not in (case.k_view, case.v_view),
        also=frozenset({"independence"}),
    ),
)  # fmt: skip

SATURATION = (
    Row(
        "C33: no saturation", "saturation", "c33-unsaturated", frozenset({"codes"}),
        shows=lambda case: _stored(case) and "normal*1e4" in _values(case),
        hides=lambda case: {*_values(case)} <= SMALL,
    ),
    Row(
        "C34: 465 is NaN, 512 is 448", "saturation", "c34-edge", frozenset({"codes"}),
        shows=lambda case: _stored(case) and (case.k_values, case.k_scale) == ("overflow*2^-3", "2^-3"),
        hides=lambda case: {*_values(case)} <= SMALL,
    ),
    Row(
        "C35: NaN by vectors of eight", "saturation", "c35-vector-of-eight", frozenset({"codes"}),
        shows=lambda case: _stored(case) and case.head_dim % 8 == 0,
        hides=lambda case: case.head_dim % 8 > 0 and case.dim_v % 8 > 0,
    ),
    Row(
        "C36: zeros without eps", "saturation", "c36-no-eps", frozenset({"codes", "scales"}),
        shows=lambda case: _shows_in_values(case, {"zero_rows"}),
        hides=lambda case: _has_no_values(case, {"zero_rows"}),
    ),
    Row(
        "C37: a row of zeros turns to NaN", "saturation", "c37-zero-row", frozenset({"codes"}),
        shows=lambda case: _shows_in_values(case, {"zero_rows"}),
        hides=lambda case: _has_no_values(case, {"zero_rows"}),
    ),
    Row(
        "C38: E8M0 of a zero amax", "saturation", "c38-e8m0-of-zero", frozenset({"scales"}),
        shows=lambda case: _shows_in_values(case, {"zero_rows"}),
        hides=lambda case: _has_no_values(case, {"zero_rows"}),
    ),
    Row(
        "C39: a scale becomes its NaN", "saturation", "c39-scale-is-nan", frozenset({"scales"}),
        shows=lambda case: _shows_in_values(case, {"inf"}),
        hides=lambda case: _has_no_values(case, {"inf"}),
    ),
)  # fmt: skip

MASKS = (
    Row(
        "D41: a range that is no power of two", "masks", "d41-range", frozenset({"crash"}),
        shows=lambda case: _stored(case) and not (_dims_are_powers(case) and _heads_are_power(case)),
        hides=lambda case: _dims_are_powers(case) and _heads_are_power(case),
    ),
    Row(
        "D41: no mask at the store", "masks", "d41-no-mask", frozenset({"stray"}),
        shows=lambda case: _stored(case) and case.layout == "arena" and not _dims_are_powers(case),
        hides=_dims_are_powers,
        also=frozenset({"codes"}),
    ),
    Row(
        "D43: a range of six heads", "masks", "d43-heads-range", frozenset({"crash"}),
        shows=lambda case: _stored(case) and not _heads_are_power(case),
        hides=_heads_are_power,
    ),
    Row(
        "D44: no mask for full tiles", "masks", "d44-full-tile", frozenset({"codes", "scales"}),
        shows=lambda case: _in_arena(case) and _dims_are_powers(case) and not _heads_are_power(case)
        and case.v_values in PLAIN | ANCHORED,
        hides=lambda case: _heads_are_power(case) or not (_is_power(case.head_dim) or _is_power(case.dim_v)),
    ),
)  # fmt: skip

SLOTS = (
    Row(
        "F52: as many tokens as K has rows", "slot_rows", "f52-tokens-of-k", frozenset({"stray"}),
        shows=lambda case: _stored(case) and case.extra_tokens > 0 and case.layout == "arena",
        hides=lambda case: case.extra_tokens == 0,
    ),
    Row(
        "F53: padding goes to slot 0", "slot_rows", "f53-reserved-slot", frozenset({"stray"}),
        shows=lambda case: case.tokens > 0 and case.slots == "negative_mixed",
        hides=lambda case: "negative" not in case.slots,
    ),
    Row(
        "F55: a negative slot wraps", "slot_rows", "f55-wrapped-slot", frozenset({"stray"}),
        shows=lambda case: 0 < case.tokens < 8 and case.slots == "negative_mixed",
        hides=lambda case: "negative" not in case.slots,
    ),
    Row(
        "F57: codes of one token, scale of another", "slot_rows", "f57-torn-pair", frozenset({"scales"}),
        shows=lambda case: case.tokens > 1 and case.slots == "duplicates" and case.k_view != "expanded"
        and case.k_values in NORMAL,
        hides=lambda case: case.slots != "duplicates",
    ),
    Row(
        "F59: parts of two tokens' rows", "slot_rows", "f59-torn-row", frozenset({"codes"}),
        shows=lambda case: case.tokens > 1 and case.slots == "duplicates" and case.k_view != "expanded"
        and case.k_values in PLAIN,
        hides=lambda case: case.slots != "duplicates",
        also=frozenset({"scales"}),
    ),
)  # fmt: skip

TABLE = (*POISON, *ADDRESSES, *SATURATION, *MASKS, *SLOTS)
