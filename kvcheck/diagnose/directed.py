"""Roundings by what they do with what lies between two codes: to one side, to nearest, with ties to one side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kvcheck.diagnose.code_fault import Coded, Form, Seen
from kvcheck.diagnose.facts import Floats, Mask
from kvcheck.diagnose.match import PROOF
from kvcheck.formats import bits
from kvcheck.formats.decode import decode
from kvcheck.formats.magnitude import Steps, magnitudes, signed

#: The least share of the codes that a noise would have made wrong, of which it is still said.
RARELY = 0.25


@dataclass(frozen=True, eq=False)
class Rest:
    """What lies above the next code toward zero, whose steps are `low`: all `[n, heads, dim]`.

    `farther` is how far off the nearer of the two neighbours is, as a share of what lies between them. `added` is where
    half of a step, added in fp32, leads to the next code: of subnormal ones the sum is rounded, and what lies one ulp
    below a tie may go there too.
    """

    low: Steps
    some: Mask
    tie: Mask
    above: Mask
    negative: Mask
    farther: Floats
    added: Mask

    @property
    def nearest(self) -> Mask:
        """Where ties to even go away from zero."""
        return np.asarray(self.above | (self.tie & (self.low & 1 == 1)))


#: Fewer wrong codes among subnormal ones have many accounts.
FEW = 4

#: How a rule is said, and where it goes away from zero.
Up = tuple[str, Callable[[Rest], Mask]]

#: How the roundings of contracts are said.
ROUNDINGS = {
    "rtz": "rounded toward zero",
    "half_away": "rounded to nearest with ties away from zero",
    "rne": "rounded to nearest, ties to even",
}

ADDED: Up = (
    "rounded to nearest with ties away from zero, half a step being added in fp32",
    lambda rest: rest.added,
)

#: The first three are what a contract can ask for, in the words of `ROUNDINGS`.
RULES: tuple[Up, ...] = (
    ("rounded toward zero", lambda rest: np.zeros_like(rest.some)),
    ("rounded to nearest with ties away from zero", lambda rest: rest.tie | rest.above),
    ("rounded to nearest, ties to even", lambda rest: rest.nearest),
    ("rounded away from zero", lambda rest: rest.some),
    ("rounded up", lambda rest: rest.some & ~rest.negative),
    ("rounded down", lambda rest: rest.some & rest.negative),
    ("rounded to nearest, ties up", lambda rest: rest.above | (rest.tie & ~rest.negative)),
    ("rounded to nearest, ties down", lambda rest: rest.above | (rest.tie & rest.negative)),
    ("rounded to nearest, ties toward zero", lambda rest: rest.above),
    ("rounded toward zero where they are negative, else to nearest", lambda rest: rest.nearest & ~rest.negative),
    ("rounded toward zero where they are positive, else to nearest", lambda rest: rest.nearest & rest.negative),
    ADDED,
)


@lru_cache(maxsize=2)
def rest(seen: Seen) -> tuple[Rest, Mask]:
    """What rounding decides, and where it does: finite values that are not beyond the largest."""
    magnitude, number_format = np.abs(seen.scaled), seen.format
    low = magnitudes(bits.encode(magnitude, number_format, rounding="rtz"), number_format)
    decides = np.isfinite(magnitude) & (low < number_format.largest)
    low = np.where(decides, low, 0)
    below = decode(low.astype(np.uint8), number_format)
    above = decode((low + 1).astype(np.uint8), number_format)
    half = (below + above) / np.float32(2)
    with np.errstate(all="ignore"):
        part = (magnitude - below) / (above - below)
        farther = np.asarray(np.fmin(part, 1 - part), np.float32)
        sums = np.floor(magnitude / decode(np.ones(1, np.uint8), number_format) + np.float32(0.5))
    small = low < 1 << number_format.mantissa_bits
    added = np.where(small, sums > low, magnitude >= half)
    found = Rest(low, magnitude > below, magnitude == half, magnitude > half, seen.negative, farther, added)
    return found, np.asarray(decides)


def _rule(words: str, up: Callable[[Rest], Mask]) -> Form:
    def form(seen: Seen) -> Coded | None:
        if ROUNDINGS[seen.facts.contract.rounding] == words:
            return None
        found, decides = rest(seen)
        codes = _signed(seen, found.low + up(found))
        return Coded(np.where(decides, codes, seen.right), words, {"rounding": words})

    return form


def to_either_side(seen: Seen) -> Coded | None:
    """One of the two neighbours, by no rule of the value; not where launches differ, which says more."""
    if seen.facts.verdict.determinism.values_drift:
        return None
    found, decides = rest(seen)
    low, high = _signed(seen, found.low), _signed(seen, found.low + found.some)
    # A noise takes the farther neighbour about as often as it is near: far fewer are wrong for another reason.
    if seen.wrong.any() and seen.wrong.sum() < RARELY * found.farther[decides & seen.known].sum():
        return None
    taken = np.where(seen.emitted == high, high, low)
    words = "rounded to either neighbour, by no rule of the value"
    return Coded(np.where(decides, taken, seen.right), words, {"rounding": "noise"}, needs=PROOF, by_value=False)


def _subnormals(words: str, up: Callable[[Rest], Mask]) -> Form:
    """A rule that holds below the least normal code alone."""

    def form(seen: Seen) -> Coded | None:
        if seen.format.integer:
            return None
        found, decides = rest(seen)
        small = decides & (found.low < 1 << seen.format.mantissa_bits)
        codes = np.where(small, _signed(seen, found.low + up(found)), seen.right)
        return Coded(codes, f"{words} where they are subnormal", {"rounding": words}, needs=FEW)

    return form


def half_added(seen: Seen) -> Coded | None:
    """Integers with half added and the rest cut off: right for positive numbers, one too many for others."""
    if not seen.format.integer:
        return None
    whole = np.trunc(np.clip(np.nan_to_num(seen.scaled) + np.float32(0.5), -128, 127)).astype(np.int64)
    codes = np.where(np.isnan(seen.scaled), seen.right, (whole & 0xFF).astype(np.uint8))
    return Coded(codes, "cut off after half was added, to negative ones as well", {"rounding": "half_added"})


def _signed(seen: Seen, steps: Steps) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """The codes of steps; zeros as the contract has them."""
    drops = seen.facts.contract.negative_zero == "drop"
    return signed(steps, seen.negative & ~(drops & (steps == 0)), seen.format)


DIRECTED: tuple[Form, ...] = (
    *(_rule(words, up) for words, up in RULES),
    *(_subnormals(words, up) for words, up in (RULES[0], RULES[1], RULES[3], ADDED)),
    half_added,
)
