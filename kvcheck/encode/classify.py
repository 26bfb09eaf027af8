"""What an encoder does, found from its codes alone: a rounding, its limits, and policies, each named or unknown.

Every part is looked for where the others have no say: rounding among inputs up to the largest value, overflow beyond
it, NaN among NaNs, -0 where the result is a zero. A part is believed only where it gives every code that was seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from kvcheck.encode.cells import Cells
from kvcheck.encode.models import (
    Carry,
    Codes,
    Flags,
    Flush,
    Nan,
    NegativeZero,
    Overflow,
    Within,
    is_nan,
    is_negative,
    is_number,
    is_subnormal,
    is_zero,
    nan_codes,
    overflow_codes,
    saturated,
    signed,
)
from kvcheck.encode.steps import MAGNITUDE, ROUNDINGS, largest_value
from kvcheck.formats import bits
from kvcheck.formats.spec import FORMATS, Format, Policy

OVERFLOWS: tuple[Overflow, ...] = ("saturate", "nan", "infinity_to_nan")
NANS: tuple[Nan, ...] = ("canonical", "keep_sign", "largest", "signed_largest", "zero")
FLUSHES: tuple[Flush, ...] = ("none", "inputs", "results")


@dataclass(frozen=True)
class Found:
    """The parts of an encoder. None: no way known here gives all of its codes, or no input asked for it."""

    #: Rounding and limits of all magnitudes up to the largest value
    within: Within | None
    #: Where `within` is None: those of normal and of subnormal inputs apart
    normal: Within | None
    subnormal: Within | None
    #: What is given beyond the largest value
    overflow: Overflow | None
    #: The NaN policy by which overflow to NaN has its sign
    overflow_nan: Nan | None
    nan: Nan | None
    negative_zero: NegativeZero | None
    #: Whether inputs beyond the largest value, NaNs, and negative inputs that were given a zero were seen at all
    seen: tuple[bool, bool, bool]
    #: Another format whose right codes these are
    other_format: str | None = None

    @property
    def known(self) -> bool:
        """Whether every part is known."""
        return None not in (self.within, self.overflow, self.nan, self.negative_zero)


def classify(cells: Cells, number_format: Format, declared: Policy) -> Found:
    """The parts of the encoder that gave these codes. Among ways that fit alike the declared one comes first."""
    patterns = cells.patterns
    nan = is_nan(patterns)
    beyond = ~nan & (patterns & MAGNITUDE > largest_value(number_format))
    inside = cells.where(~nan & ~beyond)
    small = is_subnormal(inside.patterns, number_format)
    within = _fit(inside, number_format, declared)
    normal = subnormal = within
    if within is None:
        normal = _fit(inside.where(~small), number_format, declared)
        subnormal = _fit(inside.where(small), number_format, declared)
    overflow, overflow_nan = _overflow(cells.where(beyond), normal, number_format, declared)
    return Found(
        within, normal, subnormal, overflow, overflow_nan,
        _nan(cells.where(nan), number_format, declared),
        _negative_zero(inside, number_format),
        (bool(beyond.any()), bool(nan.any()), bool(_negative_zeros(inside, number_format).any())),
        None if within is not None else _other_format(inside, number_format),
    )  # fmt: skip


def overflows(within: Within | None, declared: Policy, cells: Cells, number_format: Format) -> Flags:
    """Which numbers round beyond the largest value; by the declared rounding where none was found. NaN does too."""
    found = (within or Within(declared.rounding)).rounded(cells.patterns, number_format)
    return np.asarray(found > number_format.largest)


def _fit(cells: Cells, number_format: Format, declared: Policy) -> Within | None:
    """The first way that gives all of these codes, zeros of either sign being equal. None where none does."""
    if not len(cells):
        return Within(declared.rounding)
    zero = is_zero(cells.got, number_format)
    got = np.where(zero, 0, cells.got).astype(np.uint8)
    negative = is_negative(cells.patterns)
    if not is_number(cells.got, number_format).all():
        return None
    for candidate in _candidates(cells, number_format, declared):
        if np.array_equal(signed(candidate.steps(cells.patterns, number_format), negative, number_format), got):
            return candidate
    return None


def _candidates(cells: Cells, number_format: Format, declared: Policy) -> Iterator[Within]:
    """Ways to round, the declared one first, the plain ones before those with limits."""
    order = (declared.rounding, *(each for each in ROUNDINGS if each != declared.rounding))
    plain = [Within(rounding) for rounding in order]
    yield from plain
    flushes = ("none",) if number_format.integer else FLUSHES
    carries: tuple[Carry, ...] = ("none",) if number_format.integer else ("none", "odd", "all")
    bent = [Within(rounding, carry, flush) for carry, flush, rounding in product(carries, flushes, order)]
    yield from (each for each in bent if each not in plain)
    for each in bent:
        yield from _limited(each, cells, number_format)


def _limited(base: Within, cells: Cells, number_format: Format) -> Iterator[Within]:
    """The same with the limits that the codes themselves suggest."""
    found = base.rounded(cells.patterns, number_format)
    negative = is_negative(cells.patterns)
    wide = cells.got.astype(np.int64)
    given = np.where(negative, 256 - wide, wide) & 0xFF if number_format.integer else wide & 0x7F
    highest = int(given.max())
    if highest < number_format.largest:
        yield replace(base, clamp=highest)
    early = found[(given == number_format.largest) & (found < number_format.largest)]
    if early.size:
        yield replace(base, saturates_from=int(early.min()))
        first = cells.patterns[(given == number_format.largest) & (found < number_format.largest)] & MAGNITUDE
        yield replace(base, saturates_at=int(first.min()))


def _overflow(
    cells: Cells, within: Within | None, number_format: Format, declared: Policy
) -> tuple[Overflow | None, Nan | None]:
    """What inputs beyond the largest value become; those that round back to it are numbers still."""
    beyond = overflows(within, declared, cells, number_format)
    numbers = limited_codes(within or Within(declared.rounding), cells, number_format)
    nans = (declared.nan, *(each for each in NANS[:2] if each != declared.nan))
    order = (declared.overflow, *(each for each in OVERFLOWS if each != declared.overflow))
    for overflow, nan in product(order, nans):
        codes = overflow_codes(overflow, nan, cells.patterns, number_format)
        if overflow == "saturate":
            codes = numbers
        if codes is not None and np.array_equal(np.where(beyond, codes, numbers), cells.got):
            return overflow, nan
    return None, None


def limited_codes(within: Within, cells: Cells, number_format: Format) -> Codes:
    """The codes of inputs above the largest value where all of them are numbers: saturated, at `clamp` if there is one.

    The least value need not be minus the largest.
    """
    found = np.minimum(within.steps(cells.patterns, number_format), number_format.largest)
    codes = signed(found, is_negative(cells.patterns), number_format)
    return np.where(found == number_format.largest, saturated(cells.patterns, number_format), codes).astype(np.uint8)


def _nan(cells: Cells, number_format: Format, declared: Policy) -> Nan | None:
    negative = is_negative(cells.patterns)
    for nan in (declared.nan, *(each for each in NANS if each != declared.nan)):
        codes = nan_codes(nan, negative, number_format)
        if codes is not None and np.array_equal(codes, cells.got):
            return nan
    return None


def _negative_zeros(cells: Cells, number_format: Format) -> Flags:
    """Negative inputs that were given a zero, in a format that has -0."""
    return is_negative(cells.patterns) & is_zero(cells.got, number_format) & number_format.negative_zero


def _negative_zero(cells: Cells, number_format: Format) -> NegativeZero | None:
    """What becomes of -0 and of negative values that were given a zero."""
    zeros = cells.where(_negative_zeros(cells, number_format))
    kept, zero = zeros.got == 0x80, zeros.patterns & MAGNITUDE == 0
    if not kept.any():
        return "drop" if len(zeros) else "keep"
    if kept.all():
        return "keep"
    if np.array_equal(kept, ~zero):
        return "drop_zero"
    return "drop_underflow" if np.array_equal(kept, zero) else None


def _other_format(cells: Cells, number_format: Format) -> str | None:
    """Another format whose codes, to nearest even, these are, as far as both have values."""
    for other in FORMATS.values():
        if other.name == number_format.name:
            continue
        both = cells.where((cells.patterns & MAGNITUDE) <= largest_value(other))
        if len(both) and np.array_equal(_unsigned_zero(bits.encode(both.patterns, other)), _unsigned_zero(both.got)):
            return other.name
    return None


def _unsigned_zero(codes: np.typing.NDArray[np.uint8]) -> np.typing.NDArray[np.uint8]:
    return np.where(codes == 0x80, 0, codes).astype(np.uint8)
