"""Limits of codes: values that saturate too early, become NaN, or run over where there is no limit at all."""

from __future__ import annotations

import numpy as np

from kvcheck.diagnose.code_fault import Coded, Form, Seen
from kvcheck.diagnose.groups import encoded
from kvcheck.diagnose.scale_uses import elements
from kvcheck.formats.apply import apply_scale
from kvcheck.formats.decode import decode
from kvcheck.formats.magnitude import magnitudes, signed

#: How many wrong codes make a recovered limit credible: one wrong code has always some limit.
LIMIT_NEEDS = 4
#: By what share a recovered limit may be off for the rounding of what it is recovered from.
SLACK = 2.0**-20
#: Steps from zero that no code has.
NO_LIMIT = 256
#: What eight bits hold.
LEAST_INT8, LARGEST_INT8 = -128, 127


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
    """No value beyond a limit that is below the largest, for each sign its own: recovered from the codes."""
    number_format = seen.format
    steps, left = magnitudes(seen.right, number_format), magnitudes(seen.emitted, number_format)
    clamps: dict[bool, int] = {}
    for negative in (False, True):
        found = np.unique(left[seen.wrong & (seen.negative == negative)])
        if len(found) > 1 or (len(found) and not 0 < found[0] < number_format.largest):
            return None
        clamps |= {negative: int(found[0])} if len(found) else {}
    if not clamps:
        return None
    for negative, other in ((False, True), (True, False)):
        # A sign that nothing is wrong of has the limit of the other, unless right codes of it are beyond.
        if negative not in clamps:
            here = seen.known & ~seen.wrong & (seen.negative == negative)
            clamps[negative] = NO_LIMIT if (steps[here] > clamps[other]).any() else clamps[other]
    clamp = np.where(seen.negative, clamps[True], clamps[False])
    # A kernel that clamps values makes NaN of NaN.
    over = (steps > clamp) & ~np.isnan(seen.scaled)
    codes = np.where(over, signed(np.where(over, clamp, 0), seen.negative, number_format), seen.right)
    values = {
        negative: float(decode(np.array([step], np.uint8), number_format)[0])
        for negative, step in clamps.items()
        if step < NO_LIMIT
    }
    words = " and ".join(
        f"{-value if negative else value:g}" for negative, value in sorted(values.items(), reverse=True)
    )
    if len(values) == 1:
        words += " for negative values" if True in values else " for positive values"
    elif values[False] == values[True]:
        words = f"{values[False]:g}"
    alike = len(set(clamps.values())) == 1
    return Coded(codes, f"clamped at {words}", {"limit": max(values.values())}, needs=LIMIT_NEEDS, cost=int(not alike))


def clamped_before(seen: Seen) -> Coded | None:
    """No value beyond a limit that was put on it before its scale was applied: recovered from the codes."""
    facts, x = seen.facts, seen.facts.values(seen.tensor)
    scale = elements(facts, seen.tensor, facts.emitted(seen.tensor))
    largest = seen.format.largest
    steps = magnitudes(seen.emitted, seen.format)
    asked = seen.wrong & ~np.isnan(x)
    if scale is None or not asked.any() or (steps[asked] > largest).any():
        return None
    # Each wrong code is that of the limit by the scale of its element, so that it lies half a step about it at most.
    values = decode(np.arange(largest + 1, dtype=np.uint8), seen.format).astype(np.float64)
    below, here = values[np.maximum(steps[asked] - 1, 0)], values[steps[asked]]
    above = values[np.minimum(steps[asked] + 1, largest)]
    unit = np.abs(x[asked] / seen.scaled[asked]).astype(np.float64)
    known = np.isfinite(unit) & (unit > 0)
    if not known.any():
        return None
    # A limit at an end rounds to the even code, and the unit of an element is known within an ulp or two.
    low = float((((below + here) / 2) * unit)[known].max()) * (1 - SLACK)
    high = min(float((((above + here) / 2) * unit)[known].min()) * (1 + SLACK), float(np.abs(x[asked]).min()))
    if not 0 < low <= high:
        return None
    limit = np.float32(_roundest(np.float32(low), np.float32(high)))
    clipped = np.where(np.isnan(x), x, np.clip(x, -limit, limit)).astype(np.float32)
    with np.errstate(all="ignore"):
        codes = encoded(facts, np.asarray(apply_scale(facts.contract, clipped, scale), np.float32))
    says = f"those of values clamped at {float(limit):g} before their scale is applied"
    return Coded(codes, says, {"limit": float(limit)}, needs=LIMIT_NEEDS, by_value=False)


def _roundest(below: np.float32, first: np.float32) -> float:
    """The number of fewest bits that is above `below` and at most `first`."""
    for bit in range(127, -150, -1):
        step = np.ldexp(1.0, bit)
        found = float(np.floor(np.float64(first) / step) * step)
        if found > float(below):
            return found
    return float(first)


def overflowing(words: str, code: str, *, infinite: bool = False, early: bool = False, at: bool = False) -> Form:
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


def others_beyond(seen: Seen) -> Coded | None:
    """One number that is not the largest for all that is beyond it, for each sign its own: recovered from the codes."""
    number_format, magnitude = seen.format, np.abs(seen.scaled)
    if number_format.integer or seen.facts.contract.overflow != "saturate":
        return None
    wrong = seen.wrong & ~np.isnan(seen.scaled)
    # Where nothing below a limit is right, nothing says that it is one.
    if wrong.any() and not (seen.known & ~seen.wrong & (magnitude < magnitude[wrong].min())).any():
        return None
    codes, values = seen.right.copy(), []
    for negative in (False, True):
        here = wrong & (seen.negative == negative)
        left = np.unique(seen.emitted[here])
        if not left.size:
            continue
        if len(left) != 1 or magnitudes(left, number_format)[0] > number_format.largest:
            return None
        if (magnitudes(seen.right[here], number_format) < number_format.largest).any():
            return None  # what the format holds is wrong as well: no limit makes that
        codes = np.where((seen.negative == negative) & (magnitude >= magnitude[here].min()), left[0], codes)
        values.append((" negative" if negative else " positive", float(decode(left, number_format)[0])))
    if not values:
        return None
    alike = len(values) > 1 and values[0][1] == values[1][1]
    said = [("", values[0][1])] if alike else values
    words = ", ".join(f"{value:g} for{which} values from the largest on" for which, value in said)
    return Coded(codes, words, {"value": values[0][1]}, needs=LIMIT_NEEDS)


def runs_over(words: str, mask: int) -> Form:
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


def whole_runs_over(words: str, *, nearest: bool) -> Form:
    """No limit on integers: their lowest byte alone is stored."""

    def form(seen: Seen) -> Coded | None:
        if not seen.format.integer:
            return None
        free = ~(np.abs(seen.scaled) < np.float32(2.0**31))
        whole = np.where(free, np.float32(0), np.rint(seen.scaled) if nearest else np.trunc(seen.scaled))
        beyond_all = (whole < LEAST_INT8) | (whole > LARGEST_INT8)
        if seen.wrong.any() and not (seen.wrong & beyond_all).any():
            return None
        return Coded((whole.astype(np.int64) & 0xFF).astype(np.uint8), words, {}, free)

    return form


def lower_least(seen: Seen) -> Coded | None:
    """The least number that eight bits hold, where the contract has a greater one for the least."""
    if not seen.format.integer:
        return None
    with np.errstate(invalid="ignore"):
        low = np.rint(seen.scaled) <= LEAST_INT8
    codes = np.where(low, np.uint8(LEAST_INT8 & 0xFF), seen.right)
    return Coded(
        codes, f"{LEAST_INT8} where {int(seen.right[low][0].view(np.int8)) if low.any() else -127} is the least"
    )
