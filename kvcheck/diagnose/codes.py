"""The faults of codes, each with its forms: rounding, range, and the format itself."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from kvcheck.contract import Computed
from kvcheck.diagnose.code_fault import Coded, CodeFault, Form, Seen
from kvcheck.diagnose.directed import DIRECTED, to_either_side
from kvcheck.diagnose.facts import Facts, Stored
from kvcheck.diagnose.fault import Fault
from kvcheck.diagnose.other_codes import (
    as_number,
    bytes_in_row,
    of_format,
    offset_binary,
    own_byte,
    recoded,
    sign_and_magnitude,
    without_sign,
)
from kvcheck.diagnose.scale_fault import Made, ScaleFault
from kvcheck.diagnose.scale_rules import by_rule
from kvcheck.formats import bits
from kvcheck.formats.decode import decode
from kvcheck.formats.magnitude import magnitudes, signed
from kvcheck.formats.spec import FORMATS
from kvcheck.schema import Tensor

#: How many wrong codes make a recovered limit credible: one wrong code has always some limit.
LIMIT_NEEDS = 4


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


def saturated_from(seen: Seen) -> Coded | None:
    """The largest value from a limit on that is below it."""
    number_format, magnitude = seen.format, np.abs(seen.scaled)
    steps = magnitudes(seen.emitted, number_format)
    if seen.wrong.any():
        if not (steps[seen.wrong] == number_format.largest).all():
            return None
        first = np.float32(magnitude[seen.wrong].min())
        under = magnitude[seen.known & (magnitude < first)]
        limit = _roundest(np.float32(under.max()) if under.size else np.float32(0), first)
    else:  # nothing is recovered: all values of the highest exponent
        highest = number_format.largest >> number_format.mantissa_bits << number_format.mantissa_bits
        limit = float(decode(np.array([64 if number_format.integer else highest], np.uint8), number_format)[0])
    largest = np.where(seen.negative, np.uint8(number_format.least), np.uint8(number_format.largest))
    codes = np.where(magnitude >= limit, largest, seen.right)
    # Nobody's encoder ends that low; a scale that is too small by far makes such codes.
    low = 2 if 2 * limit < float(decode(np.array([number_format.largest], np.uint8), number_format)[0]) else 0
    return Coded(codes, f"the largest value from {limit:g} on", {"limit": limit}, needs=LIMIT_NEEDS, cost=low)


def clamped_at(seen: Seen) -> Coded | None:
    """No value beyond a limit that is below the largest."""
    number_format = seen.format
    steps = magnitudes(seen.right, number_format)
    left = magnitudes(seen.emitted, number_format)[seen.wrong]
    if not left.size or left.min() != left.max() or not 0 < left[0] < number_format.largest:
        return None
    clamp = int(left[0])
    # A kernel that clamps values makes NaN of NaN.
    over = (steps > clamp) & ~np.isnan(seen.scaled)
    codes = np.where(over, signed(np.where(over, clamp, 0), seen.negative, number_format), seen.right)
    limit = float(decode(np.array([clamp], np.uint8), number_format)[0])
    return Coded(codes, f"clamped at {limit:g}", {"limit": limit}, needs=LIMIT_NEEDS)


def _roundest(below: np.float32, first: np.float32) -> float:
    """The number of fewest bits that is above `below` and at most `first`."""
    for bit in range(127, -150, -1):
        step = np.ldexp(1.0, bit)
        found = float(np.floor(np.float64(first) / step) * step)
        if found > float(below):
            return found
    return float(first)


def _overflow(words: str, code: str, *, infinite: bool = False, early: bool = False, at: bool = False) -> Form:
    """NaN for what is beyond the largest value: with a sign or not, of all or of infinities alone."""

    def form(seen: Seen) -> Coded | None:
        number_format, contract = seen.format, seen.facts.contract
        if contract.overflow != "saturate" or number_format.nan is None:
            return None
        plus = number_format.infinity if code == "infinity" else number_format.nan
        minus = number_format.negative_nan if code == "keep_sign" else plus
        if code == "infinity" and plus is not None:
            minus = plus | 0x80
        if plus is None or minus is None:
            return None
        magnitude = np.abs(seen.scaled)
        largest = decode(np.array([number_format.largest], np.uint8), number_format)[0]
        # Half a step above the largest is where rounding leaves it.
        step = largest - decode(np.array([number_format.largest - 1], np.uint8), number_format)[0]
        beyond = magnitude >= largest if at else magnitude > largest
        over = beyond if early else magnitude > largest + step / np.float32(2)
        over = np.isinf(magnitude) if infinite else over
        codes = np.where(over, np.where(seen.negative, np.uint8(minus), np.uint8(plus)), seen.right)
        return Coded(codes, words)

    return form


def beyond(seen: Seen) -> Coded | None:
    """NaN or infinity from a limit on, for values of one sign or each by its own: recovered from the codes."""
    number_format, magnitude = seen.format, np.abs(seen.scaled)
    if number_format.nan is None:
        return None
    codes, limits = seen.right.copy(), []
    for negative in (False, True):
        here = seen.negative == negative
        left = np.unique(seen.emitted[here & seen.wrong])
        if not left.size:
            continue
        if len(left) != 1 or magnitudes(left, number_format)[0] <= number_format.largest:
            return None
        limit = magnitude[here & seen.wrong].min()
        codes = np.where(here & (magnitude >= limit), left[0], codes)
        limits.append(float(limit))
    if not limits:
        return None
    which = "" if len(limits) > 1 else (" negative" if seen.negative[seen.wrong].any() else " positive")
    return Coded(codes, f"NaN or infinity for{which} values beyond the largest", {"limit": min(limits)})


def _runs_over(words: str, mask: int) -> Form:
    """No limit: the exponent of what is too large runs over into the sign, or past it."""

    def form(seen: Seen) -> Coded | None:
        number_format = seen.format
        if number_format.integer:
            return None
        magnitude = np.abs(seen.scaled).astype(np.float64)
        large = magnitude >= decode(np.array([number_format.largest], np.uint8), number_format)[0]
        _, exponent = np.frexp(np.where(np.isfinite(magnitude), magnitude, 0))
        power = exponent - 1
        mantissa = number_format.mantissa_bits
        with np.errstate(all="ignore"):
            whole = np.rint(np.where(np.isfinite(magnitude), magnitude, 0) / np.exp2(power - mantissa)).astype(np.int64)
        bias = 1 - mantissa - number_format.subnormal_step
        steps = ((power + bias).astype(np.int64) << mantissa) + whole - (1 << mantissa)
        steps = np.where(np.isinf(magnitude), (128 + bias) << mantissa, steps)
        codes = ((steps & mask) | np.where(seen.negative, 0x80, 0)).astype(np.uint8)
        return Coded(np.where(large, codes, seen.right), words, {}, np.isnan(seen.scaled))

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
    CodeFault("early-saturation", (saturated_from, clamped_at), cost=2),
    CodeFault(
        "overflow-to-nan",
        (
            _overflow("NaN where the largest value is due", "canonical"),
            _overflow("NaN with a sign where the largest value is due", "keep_sign"),
            _overflow("infinity where the largest value is due", "infinity"),
            _overflow("NaN for what is beyond the largest value, even if it rounds to it", "canonical", early=True),
            _overflow("NaN with a sign for what is beyond the largest value", "keep_sign", early=True),
            _overflow("NaN from the largest value on", "canonical", early=True, at=True),
            _overflow("NaN with a sign from the largest value on", "keep_sign", early=True, at=True),
            _overflow("NaN where values are infinite", "canonical", infinite=True),
            _overflow("NaN with a sign where values are infinite", "keep_sign", infinite=True),
        ),
    ),
    CodeFault(
        "overflow-to-nan",
        (
            beyond,
            _runs_over("not limited: the exponent of what is too large runs over into the sign", 0xFF),
            _runs_over("not limited: the exponent of what is too large runs over, the sign is kept", 0x7F),
        ),
        cost=2,
        usual={},
    ),
    CodeFault("nan-laundered", (laundered,)),
    ScaleFault("nan-laundered", (poisoned_scale,), usual={}),
    CodeFault(
        "format-confusion",
        (*(of_format(each) for each in FORMATS.values()), offset_binary, without_sign, sign_and_magnitude),
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
    CodeFault("format-confusion", (recoded,), cost=4, usual={}),
    CodeFault("rounding-mode", DIRECTED, cost=2, usual={}),
    CodeFault("rounding-mode", (to_either_side,), cost=4, usual={}),
)
