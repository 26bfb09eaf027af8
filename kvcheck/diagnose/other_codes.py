"""Codes of another kind than the contract's: another format or table, bytes of the source, numbers as they are."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from kvcheck.addresses import element_offsets
from kvcheck.diagnose.code_fault import Coded, Form, Seen
from kvcheck.diagnose.groups import encoded
from kvcheck.draw import dtypes
from kvcheck.formats import bits
from kvcheck.formats.decode import decode
from kvcheck.formats.magnitude import magnitudes, signed
from kvcheck.formats.spec import Format
from kvcheck.schema import ITEMSIZE

#: How many codes a recovered table must give for another, how often each of them must be met in the mean, and how many
#: a sentence names.
TABLE_NEEDS, TABLE_REPEATS, TABLE_NAMED = 8, 2, 3
#: How many unlike codes make it credible that they are bytes of something else: zeros are zeros for many reasons.
KINDS = 3


def of_format(other: Format) -> Form:
    """The codes of another number format."""

    def form(seen: Seen) -> Coded | None:
        if other.name == seen.format.name:
            return None
        codes = bits.encode(seen.scaled, other)
        # What an encoder makes of NaN and of the sign of zero is its own affair.
        zero = other.negative_zero & seen.negative & (magnitudes(codes, other) == 0)
        free = np.isnan(seen.scaled) | zero
        return Coded(codes, f"those of {other.name}, where {seen.format.name} is due", {"format": other.name}, free)

    return form


def through_format(other: Format) -> Form:
    """The codes of values that were rounded to another number format first."""

    def form(seen: Seen) -> Coded | None:
        if other.name == seen.format.name:
            return None
        # NaN and infinities are what the first format makes of them.
        free = ~np.isfinite(seen.scaled)
        rounded = decode(bits.encode(np.where(free, np.float32(0), seen.scaled), other), other)
        codes = encoded(seen.facts, np.asarray(rounded, np.float32))
        says = f"those of values rounded to {other.name} before they are rounded to {seen.format.name}"
        return Coded(codes, says, {"format": other.name}, free, KINDS)

    return form


def whole_first(words: str, *, nearest: bool) -> Form:
    """The codes of values that were made whole numbers first, as for an integer format."""

    def form(seen: Seen) -> Coded | None:
        if seen.format.integer:
            return None
        free = ~np.isfinite(seen.scaled)
        finite = np.where(free, np.float32(0), seen.scaled)
        codes = encoded(seen.facts, np.asarray(np.rint(finite) if nearest else np.trunc(finite), np.float32))
        # Who adds and takes away a large number gets +0 for small negative ones: what a zero's sign is shows nothing.
        zero = (magnitudes(codes, seen.format) == 0) & (magnitudes(seen.emitted, seen.format) == 0)
        codes = np.where(zero, seen.emitted, codes)
        if seen.wrong.any() and not (seen.wrong & ~zero).any():
            return None
        says = f"those of values {words} to whole numbers before they are rounded to {seen.format.name}"
        return Coded(codes, says, {}, free, KINDS)

    return form


def sign_turned(seen: Seen) -> Coded | None:
    """The codes of the negated values."""
    number_format = seen.format
    negated = (-seen.right.view(np.int8)).view(np.uint8) if number_format.integer else seen.right ^ np.uint8(0x80)
    # A format without a negative zero has NaN there.
    codes = np.where((negated == 0x80) & (not number_format.negative_zero), seen.right, negated)
    # Whether a NaN has another sign as well depends on what was turned: the value, or its code.
    nan = np.isnan(seen.scaled) & (magnitudes(seen.emitted, number_format) > number_format.largest)
    return Coded(np.where(nan, seen.emitted, codes), "those of values with the other sign")


def offset_binary(seen: Seen) -> Coded | None:
    """Integers from 0 on, 128 standing for zero."""
    if not seen.format.integer:
        return None
    return Coded(seen.right ^ np.uint8(0x80), "those of int8 plus 128, from 0 to 255")


def without_sign(seen: Seen) -> Coded | None:
    """Magnitudes alone, as in a format without a sign."""
    steps = magnitudes(seen.right, seen.format)
    unsigned = signed(steps, np.zeros(steps.shape, np.bool_), seen.format)
    codes = np.where(seen.negative & ~np.isnan(seen.scaled), unsigned, seen.right)
    return Coded(codes, "those of magnitudes, without a sign")


def sign_and_magnitude(seen: Seen) -> Coded | None:
    """Integers with a bit for their sign, where two's complement is due."""
    if not seen.format.integer:
        return None
    steps = magnitudes(seen.right, seen.format)
    codes = np.where(seen.right >= 0x80, (steps | 0x80).astype(np.uint8), seen.right)
    return Coded(codes, "a sign bit and a magnitude, where two's complement is due")


def recoded(seen: Seen) -> Coded | None:
    """One other code for each right one, whatever it is: the table is recovered from codes that are met repeatedly."""
    asked = np.asarray(seen.known & seen.wrong.any(axis=2, keepdims=True))
    right, left = seen.right[asked], seen.emitted[asked]
    pairs, count = np.unique(right.astype(np.int64) << 8 | left, return_counts=True)
    table = np.arange(256)
    for pair in pairs[np.argsort(count, kind="stable")].tolist():  # the commonest is written last, and stays
        table[pair >> 8] = pair & 0xFF
    met = np.unique(right)
    other = table[met] != met
    # A limit, zeros for small values and one step more or less are tables as well; this is for an encoding that is
    # another one throughout, and in which codes stay apart.
    if (np.isin((table[met] - met)[other] & 0xFF, (1, 255))).sum() > other.sum() // 2:
        return None
    if other.sum() < max(TABLE_NEEDS, len(met) // 2) or len(np.unique(table[met])) <= len(met) // 2:
        return None
    named = ", ".join(f"{table[code]:#04x} for {code:#04x}" for code in met[other][:TABLE_NAMED].tolist())
    codes = table[seen.right].astype(np.uint8)
    return Coded(codes, f"each one other than the right one: {named} and so on", needs=TABLE_REPEATS * int(other.sum()))


def own_byte(words: str, index: int) -> Form:
    """A byte of the source's element for its code; `index` counts from the lowest, or from the highest down."""

    def form(seen: Seen) -> Coded | None:
        dtype = seen.facts.emission.placement.get(seen.tensor).dtype
        assert dtype in ("bf16", "fp16", "fp32")
        raw = np.ascontiguousarray(dtypes.from_float32(seen.facts.values(seen.tensor), dtype))
        parts = raw.view(np.uint8).reshape(*raw.shape, ITEMSIZE[dtype])
        return Coded(
            parts[..., index], f"the {words} byte of each element of the source", {"byte": index}, None, 8, KINDS
        )

    return form


def bytes_in_row(seen: Seen) -> Coded | None:
    """The source's memory read as if an element were one byte."""
    placed = seen.facts.emission.placement.get(seen.tensor)
    as_bytes = replace(placed, dtype="uint8")
    begin = np.int64(seen.facts.emission.addresses[placed.allocation])
    every = seen.facts.memory.bytes_at(element_offsets(as_bytes) + begin)
    codes = seen.facts.chosen(seen.tensor, every)
    return Coded(codes, "the source's bytes in their order, strides counted in bytes", {}, None, 8, KINDS)


def as_number(words: str, *, nearest: bool, clips: bool) -> Form:
    """The number itself as a byte."""

    def form(seen: Seen) -> Coded | None:
        if seen.format.integer and not clips:
            return None  # whole numbers are the codes of such a format: what is wrong of them has another name
        free = ~(np.abs(seen.scaled) < np.float32(2.0**31))
        whole = np.where(free, np.float32(0), np.rint(seen.scaled) if nearest else np.trunc(seen.scaled))
        number = np.clip(whole, 0, 255) if clips else whole
        codes = (number.astype(np.int64) & 0xFF).astype(np.uint8)
        return Coded(codes, f"the scaled values as whole numbers, {words}, not their codes", {}, free)

    return form
