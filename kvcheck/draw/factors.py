"""Positive numbers as users write them: `0.0123`, `1e4`, `2^-20`."""

from __future__ import annotations

import math
import re

_DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,3})?\Z")
_POWER = re.compile(r"2\^(-?[0-9]{1,4})\Z")

ACCEPTED = "a positive decimal such as 0.0123 or 1e4, or a power of two such as 2^-3"


def parse(text: str) -> float | None:
    """Return the number, to the nearest float64; None where `text` is not a positive finite number of that grammar."""
    power = _POWER.match(text)
    if power is not None:
        exponent = int(power[1])
        # ldexp is exact, and raises beyond float64.
        return math.ldexp(1.0, exponent) if -1074 <= exponent <= 1023 else None
    if _DECIMAL.match(text) is None:
        return None
    value = float(text)
    return value if 0 < value < math.inf else None
