"""The faults that explain an encoder's differences, by the slugs that reports use, each with how many it explains."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvcheck.encode.cells import Cells
from kvcheck.encode.classify import Found, overflows
from kvcheck.encode.facts import Named
from kvcheck.encode.models import (
    Codes,
    Flags,
    Nan,
    NegativeZero,
    Overflow,
    Within,
    is_nan,
    is_negative,
    is_number,
    is_subnormal,
    is_zero,
)
from kvcheck.encode.steps import MAGNITUDE, Rounding, largest_value, steps
from kvcheck.formats import bits
from kvcheck.formats.decode import decode
from kvcheck.formats.spec import Format, Policy

ROUNDING_FAULTS: dict[Rounding, str] = {
    "rne": "rounding-mode",
    "half_away": "rounding-mode",
    "rtz": "rounding-mode",
    "floor": "rounding-mode",
    "ceil": "rounding-mode",
    "via_fp16_rtz": "double-rounding-fp16",
    "via_fp16_rne": "double-rounding-fp16",
    "via_bf16": "double-rounding-bf16",
}
ROUNDING_WORDS: dict[Rounding, str] = {
    "rne": "to nearest, ties to even",
    "half_away": "to nearest, ties away from zero",
    "rtz": "toward zero",
    "floor": "toward minus infinity",
    "ceil": "toward plus infinity",
    "via_fp16_rtz": "twice, first toward zero to fp16, then to nearest",
    "via_fp16_rne": "twice, first to nearest in fp16, then to nearest",
    "via_bf16": "twice, first to nearest in bf16, then to nearest",
}
OVERFLOW_WORDS: dict[Overflow, str] = {
    "saturate": "what is too large saturates",
    "nan": "what is too large becomes NaN, or infinity where the format has it",
    "infinity_to_nan": "finite values saturate, infinity becomes NaN",
}
NAN_WORDS: dict[Nan, str] = {
    "canonical": "every NaN becomes the canonical one",
    "keep_sign": "NaN keeps its sign",
    "largest": "NaN becomes the largest value",
    "signed_largest": "NaN becomes the largest value of its sign",
    "zero": "NaN becomes zero",
}
ZERO_WORDS: dict[NegativeZero, str] = {
    "keep": "-0 keeps its sign",
    "drop": "-0 loses its sign",
    "drop_zero": "-0 itself loses its sign, negative underflow keeps it",
    "drop_underflow": "negative underflow loses its sign, -0 itself keeps it",
}


def behaviour(found: Found) -> str:
    """What an encoder does, in words; what could not be found is said to be unknown."""
    if found.within is not None:
        magnitudes = within_words(found.within)
    else:
        parts = [("normal values", found.normal), ("subnormal values", found.subnormal)]
        magnitudes = "; ".join(
            f"{name}: {within_words(part) if part else 'in no way known here'}" for name, part in parts
        )
    words = (
        (OVERFLOW_WORDS, found.overflow, "what becomes of too large values is unknown"),
        (NAN_WORDS, found.nan, "what becomes of NaN is unknown"),
        (ZERO_WORDS, found.negative_zero, "signs of zeros follow no rule known here"),
    )
    said = [
        str(table[part]) if part is not None else unknown  # type: ignore[index]
        for (table, part, unknown), seen in zip(words, found.seen, strict=True)
        if seen
    ]
    return "; ".join([magnitudes, *said])


def within_words(within: Within) -> str:
    """How magnitudes are rounded and limited."""
    words = [f"rounds {ROUNDING_WORDS[within.rounding]}"]
    if within.lost_carry != "none":
        words.append("loses carries into the exponent" + " where its field is odd" * (within.lost_carry == "odd"))
    if within.flush != "none":
        words.append(f"makes subnormal {within.flush} zero")
    if within.clamp is not None:
        words.append("saturates below the largest value")
    if within.saturates_from is not None or within.saturates_at is not None:
        words.append("takes values too early for too large")
    return ", ".join(words)


def named(
    cells: Cells, wrong: Flags, want: Codes, found: Found, number_format: Format, declared: Policy
) -> tuple[Named, ...]:
    """What explains each differing input, every one counted once; what explains most comes first."""
    of = int(cells.count[wrong].sum())
    if found.other_format is not None:
        same = wrong & _is_code_of(cells, found.other_format)
        words = f"the codes are those of {found.other_format}"
        made = [Named("format-confusion", words, int(cells.count[same].sum()), of)]
        return (*made, *_unnamed(cells, wrong & ~same, of))
    causes = _causes(cells, wrong, want, found, number_format, declared)
    left, result = wrong.copy(), []
    for fault, says, rows in causes:
        held = rows & left
        left &= ~held
        if held.any():
            result.append(Named(fault, says, int(cells.count[held].sum()), of))
    result.sort(key=lambda each: -each.explains)
    return (*result, *_unnamed(cells, left, of))


def _unnamed(cells: Cells, left: Flags, of: int) -> tuple[Named, ...]:
    if not left.any():
        return ()
    return (Named(None, "follows no rule that kvcheck knows", int(cells.count[left].sum()), of),)


def _is_code_of(cells: Cells, name: str) -> Flags:
    """Whether codes are another format's."""
    codes = bits.encode(cells.patterns, name)
    return np.asarray((codes == cells.got) | ((codes | 0x80 == 0x80) & (cells.got | 0x80 == 0x80)))


def _causes(
    cells: Cells, wrong: Flags, want: Codes, found: Found, number_format: Format, declared: Policy
) -> list[tuple[str | None, str, npt.NDArray[np.bool_]]]:
    """Each cause with the differing rows that are due to it, those that claim less coming first."""
    patterns = cells.patterns
    nan = is_nan(patterns)
    beyond = ~nan & (patterns & MAGNITUDE > largest_value(number_format))
    inside = ~nan & ~beyond
    causes: list[tuple[str | None, str, npt.NDArray[np.bool_]]] = []
    laundered = nan & is_number(cells.got, number_format) & (number_format.nan is not None)
    if found.nan is None:
        causes.append(("nan-laundered", f"NaN becomes {_listed(cells.got[wrong & laundered])}", wrong & laundered))
    elif found.nan != declared.nan:
        causes.append(("nan-laundered", NAN_WORDS[found.nan], wrong & laundered))
        causes.append((None, f"policy: {NAN_WORDS[found.nan]} (nan={found.nan!r})", wrong & nan))
    if found.negative_zero is not None:
        zeros = inside & is_zero(cells.got, number_format) & is_zero(want, number_format)
        causes.append(("negative-zero", ZERO_WORDS[found.negative_zero], wrong & zeros & is_negative(patterns)))
    small = is_subnormal(patterns, number_format)
    over = overflows(found.normal, declared, cells, number_format)
    numbers = wrong & ~nan & ~over & (inside | (found.overflow is not None))
    if found.within is not None:
        causes += _within(cells, numbers, found.within, number_format, declared)
    else:
        for part, rows in ((found.normal, ~small), (found.subnormal, small)):
            if part is not None:
                causes += _within(cells, numbers & rows, part, number_format, declared)
    causes += _beyond(cells, wrong & ~nan & (beyond | over), found, number_format, declared)
    return causes


def _within(
    cells: Cells, wrong: Flags, within: Within, number_format: Format, declared: Policy
) -> list[tuple[str | None, str, npt.NDArray[np.bool_]]]:
    """Limits first, then flushes, then carries, then the rounding itself."""
    patterns = cells.patterns
    free = within.rounded(patterns, number_format)
    plain = steps(patterns, number_format, within.rounding)
    causes: list[tuple[str | None, str, npt.NDArray[np.bool_]]] = []
    if within.clamp is not None:
        value = _value(within.clamp, number_format)
        causes.append(("early-saturation", f"saturates at {value:g}", wrong & (free > within.clamp)))
    if within.saturates_from is not None:
        value = _value(within.saturates_from, number_format)
        rows = wrong & (free >= within.saturates_from)
        causes.append(("early-saturation", f"values from {value:g} on become the largest", rows))
    if within.saturates_at is not None:
        at = np.uint32(within.saturates_at).view(np.float32)
        rows = wrong & ((patterns & MAGNITUDE) >= within.saturates_at)
        causes.append(("early-saturation", f"inputs from {at:g} on become the largest value", rows))
    flushed = within.flushes(patterns, number_format, plain) & (plain > 0)
    causes.append(("subnormal-flush", f"subnormal {within.flush} become zero", wrong & flushed))
    if within.lost_carry != "none":
        words = "the carry of a mantissa that rounds up to the next power of two is lost"
        words += ", where the exponent field is odd" * (within.lost_carry == "odd")
        causes.append(("lost-carry", words, wrong & within.carries(patterns, number_format)))
    if within.rounding != declared.rounding:
        words = f"rounds {ROUNDING_WORDS[within.rounding]}"
        causes.append((ROUNDING_FAULTS[within.rounding], words, wrong))
    return causes


def _beyond(
    cells: Cells, wrong: Flags, found: Found, number_format: Format, declared: Policy
) -> list[tuple[str | None, str, npt.NDArray[np.bool_]]]:
    """Overflow to NaN, other policies, and a rounding that decides otherwise what is too large."""
    number = is_number(cells.got, number_format)
    causes: list[tuple[str | None, str, npt.NDArray[np.bool_]]] = []
    over = overflows(found.normal, declared, cells, number_format)
    if found.normal is not None and found.normal.clamp is not None and found.overflow == "saturate":
        value = _value(found.normal.clamp, number_format)
        causes.append(("early-saturation", f"saturates at {value:g}", wrong & number))
    if found.overflow is not None and found.overflow != declared.overflow:
        fault = "overflow-to-nan" if declared.overflow == "saturate" else None
        words = OVERFLOW_WORDS[found.overflow]
        causes.append((fault, words if fault else f"policy: {words} (overflow={found.overflow!r})", wrong & over))
    elif found.overflow is None:
        if declared.overflow == "saturate":
            causes.append(("overflow-to-nan", "too large values become NaN or infinity", wrong & ~number))
            causes += _one_value(cells, wrong & number, number_format)
    elif found.overflow_nan is not None and found.overflow_nan != declared.nan:
        causes.append((None, f"policy: {NAN_WORDS[found.overflow_nan]} on overflow", wrong & over))
    if found.normal is not None and found.normal.rounding != declared.rounding:
        words = f"rounds {ROUNDING_WORDS[found.normal.rounding]}"
        causes.append((ROUNDING_FAULTS[found.normal.rounding], words, wrong & (found.overflow is not None)))
    return causes


def _one_value(cells: Cells, rows: Flags, number_format: Format) -> list[tuple[str | None, str, npt.NDArray[np.bool_]]]:
    """Too large values that all become one smaller value of their sign."""
    negative = is_negative(cells.patterns)
    magnitudes = np.abs(decode(cells.got, number_format))
    kept = np.unique(magnitudes[rows])
    signs = np.array_equal(np.signbit(decode(cells.got[rows], number_format)), negative[rows])
    if kept.size != 1 or not signs:
        return []
    return [("early-saturation", f"what is too large becomes {kept[0]:g}", rows)]


def _listed(codes: Codes) -> str:
    """Codes, each once; only their number where they are many."""
    each = np.unique(codes)
    return ", ".join(f"0x{code:02X}" for code in each) if each.size <= 4 else f"one of {each.size} numbers"


def _value(code: int, number_format: Format) -> float:
    return float(decode(np.array([code], dtype=np.uint8), number_format)[0])
