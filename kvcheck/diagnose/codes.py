"""The faults of codes, each with its forms: rounding, range, and the format itself."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from kvcheck.contract import Computed
from kvcheck.diagnose.code_fault import Coded, CodeFault, Form, Seen
from kvcheck.diagnose.directed import DIRECTED, to_either_side
from kvcheck.diagnose.facts import Facts, Stored
from kvcheck.diagnose.fault import Fault
from kvcheck.diagnose.limits import (
    beyond,
    clamped_at,
    clamped_before,
    lower_least,
    others_beyond,
    overflowing,
    runs_over,
    saturated_from,
    whole_runs_over,
)
from kvcheck.diagnose.other_codes import (
    as_number,
    bytes_in_row,
    of_format,
    offset_binary,
    own_byte,
    recoded,
    sign_and_magnitude,
    sign_turned,
    through_format,
    whole_first,
    without_sign,
)
from kvcheck.diagnose.scale_fault import Made, ScaleFault
from kvcheck.diagnose.scale_rules import by_rule
from kvcheck.formats import bits
from kvcheck.formats.decode import decode
from kvcheck.formats.magnitude import magnitudes, signed
from kvcheck.formats.spec import FORMATS
from kvcheck.schema import Tensor


def _lost_carry(words: str, which: str) -> Form:
    """Rounding up to a power of two that leaves the exponent, or the mantissa at its largest."""

    def form(seen: Seen) -> Coded | None:
        number_format = seen.format
        if number_format.integer:
            return None
        whole = 1 << number_format.mantissa_bits
        steps = magnitudes(seen.right, number_format)
        low = magnitudes(bits.encode(seen.scaled, number_format, rounding="rtz"), number_format)
        carries = (steps > low) & (steps % whole == 0) & (steps <= number_format.largest)
        if which == "normal":
            carries &= low >= whole
        elif which == "odd":
            carries &= low // whole % 2 == 1
        lost = steps - (1 if which == "stuck" else whole)
        codes = np.where(carries, signed(np.where(carries, lost, 0), seen.negative, number_format), seen.right)
        return Coded(codes, f"those of rounding that {words}")

    return form


def _flushed(words: str, *, inputs: bool, sign: bool) -> Form:
    """Subnormal codes as zeros."""

    def form(seen: Seen) -> Coded | None:
        number_format = seen.format
        if number_format.integer:
            return None
        whole = 1 << number_format.mantissa_bits
        least = np.ldexp(np.float32(1), number_format.subnormal_step + number_format.mantissa_bits)
        small = np.abs(seen.scaled) < least if inputs else magnitudes(seen.right, number_format) < whole
        small = small & ~np.isnan(seen.scaled)
        minus = seen.negative & sign & (seen.facts.contract.negative_zero == "keep")
        zeros = signed(np.zeros(small.shape, np.int64), minus, number_format)
        return Coded(np.where(small, zeros, seen.right), f"zero where {words}")

    return form


def _other_zero(words: str, *, exact: bool, underflow: bool) -> Form:
    """Zeros of the sign that the contract does not ask for."""

    def form(seen: Seen) -> Coded | None:
        if not seen.format.negative_zero:
            return None
        none = (magnitudes(seen.right, seen.format) == 0) & seen.negative
        zero = seen.scaled == 0
        there = none & ((zero & exact) | (~zero & underflow))
        keeps = seen.facts.contract.negative_zero == "keep"
        which = "+0 where -0 is due" if keeps else "-0 where +0 is due"
        return Coded(np.where(there, np.uint8(0 if keeps else 0x80), seen.right), f"{which}{words}")

    return form


def laundered(seen: Seen) -> Coded | None:
    """A number for every NaN, one for each sign at most, recovered from the codes."""
    nan = np.isnan(seen.scaled) & seen.known
    codes, values = seen.right.copy(), []
    for negative in (False, True):
        here = nan & (seen.negative == negative)
        left = np.unique(seen.emitted[here & seen.wrong])
        if not here.any():
            continue
        if seen.wrong.any() and len(left) != 1:
            return None
        code = left[0] if left.size else np.uint8(seen.format.largest)
        codes[here] = code
        values.append(float(decode(np.array([code], np.uint8), seen.format)[0]))
    if not values or np.isnan(values).any():
        return None
    said = " or ".join(f"{value:g}" for value in dict.fromkeys(values))
    return Coded(codes, f"{said} where values are NaN", {"value": values[0]})


def poisoned_scale(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """A NaN that makes its scale NaN where it is to be ignored, or the reverse."""
    rule = facts.contract.scale
    if not isinstance(rule, Computed) or emitted.scale is None:
        return None
    ignores = rule.nan == "ignore"
    other = replace(rule, nan="propagate" if ignores else "ignore")
    which = "NaN where a value is NaN, which is to be ignored" if ignores else "those of the values that are not NaN"
    return by_rule(other, facts.values(tensor), f"scales are {which}")


#: Faults of rounding, range and format, the simpler ones first.
CODES: tuple[Fault, ...] = (
    CodeFault(
        "lost-carry",
        (
            _lost_carry("does not raise the exponent", "normal"),
            _lost_carry("does not raise the exponent, nor leave the subnormals", "all"),
            _lost_carry("does not raise an odd exponent", "odd"),
            _lost_carry("stops at the largest mantissa", "stuck"),
        ),
    ),
    CodeFault(
        "negative-zero",
        (
            _other_zero("", exact=True, underflow=True),
            _other_zero(", of values that underflow alone", exact=False, underflow=True),
            _other_zero(", of zeros alone", exact=True, underflow=False),
        ),
    ),
    CodeFault(
        "subnormal-flush",
        (
            _flushed("they would be subnormal", inputs=False, sign=True),
            _flushed("the value is below the least normal one", inputs=True, sign=True),
            _flushed("they would be subnormal, without a sign", inputs=False, sign=False),
            _flushed("the value is below the least normal one, without a sign", inputs=True, sign=False),
        ),
    ),
    CodeFault("early-saturation", (saturated_from, clamped_at, clamped_before), cost=2),
    CodeFault(
        "overflow-to-nan",
        (
            overflowing("NaN where the largest value is due", "canonical"),
            overflowing("NaN with a sign where the largest value is due", "keep_sign"),
            overflowing("infinity where the largest value is due", "infinity"),
            overflowing("NaN for what is beyond the largest value, even if it rounds to it", "canonical", early=True),
            overflowing("NaN with a sign for what is beyond the largest value", "keep_sign", early=True),
            overflowing("NaN from the largest value on", "canonical", early=True, at=True),
            overflowing("NaN with a sign from the largest value on", "keep_sign", early=True, at=True),
            overflowing("NaN where values are infinite", "canonical", infinite=True),
            overflowing("NaN with a sign where values are infinite", "keep_sign", infinite=True),
        ),
    ),
    CodeFault(
        "overflow-to-nan",
        (
            beyond,
            others_beyond,
            runs_over("not limited: the exponent of what is too large runs over into the sign", 0xFF),
            runs_over("not limited: the exponent of what is too large runs over, the sign is kept", 0x7F),
            whole_runs_over("not limited: what is too large runs over into the sign", nearest=True),
            whole_runs_over("not limited, and cut off: what is too large runs over into the sign", nearest=False),
        ),
        cost=2,
        usual={},
    ),
    CodeFault("nan-laundered", (laundered,)),
    ScaleFault("nan-laundered", (poisoned_scale,), usual={}),
    CodeFault(
        "format-confusion",
        (
            *(of_format(each) for each in FORMATS.values()),
            sign_turned,
            offset_binary,
            without_sign,
            sign_and_magnitude,
            lower_least,
        ),
        usual={name: (of_format(FORMATS[name]),) for name in ("e5m2", "e4m3fnuz")},
    ),
    CodeFault(
        "reinterpreted-source",
        (own_byte("lowest", 0), own_byte("highest", -1), own_byte("second highest", -2), bytes_in_row),
        usual={"": (bytes_in_row,)},
        reads=True,
    ),
    CodeFault(
        "numeric-store",
        (
            as_number("cut off", nearest=False, clips=False),
            as_number("rounded to nearest", nearest=True, clips=False),
            as_number("cut off and clipped to 0 ... 255", nearest=False, clips=True),
            as_number("rounded to nearest and clipped to 0 ... 255", nearest=True, clips=True),
        ),
    ),
    CodeFault("format-confusion", tuple(through_format(FORMATS[name]) for name in ("e5m2", "e4m3fn")), usual={}),
    CodeFault("format-confusion", (recoded,), cost=4, usual={}),
    CodeFault("rounding-mode", (whole_first("rounded", nearest=True), whole_first("cut off", nearest=False)), usual={}),
    CodeFault("rounding-mode", DIRECTED, cost=2, usual={}),
    CodeFault("rounding-mode", (to_either_side,), cost=4, usual={}),
)
