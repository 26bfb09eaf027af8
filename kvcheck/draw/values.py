"""The logical values of K and V: a kind, and a factor.

A draw depends on kind, shape, dtype, role and seed, and not on where the tensor lies, so that equal inputs must give
equal codes in every view and layout. Only integers, the four arithmetic operations and comparisons in float64, then one
rounding: no function of a maths library, whose last bits differ between machines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.draw import counter, dtypes, edge_values, factors
from kvcheck.draw.dtypes import Bits, SourceDtype

Values: TypeAlias = npt.NDArray[np.float64]
Role: TypeAlias = Literal["k", "v"]

#: A factor beyond these has no use in any source dtype, and would leave float64 with the values.
_LEAST, _GREATEST = 2.0**-200, 2.0**200

#: Elements drawn at a time, so that a large tensor needs little more than its own memory.
_CHUNK = 1 << 17


@dataclass(frozen=True)
class _Draw:
    """One tensor to draw: `rows` (token, head) rows of `dim` elements, from the streams of `key`."""

    key: counter.Key
    rows: int
    dim: int
    dtype: SourceDtype

    def words(self, purpose: str, count: int) -> counter.Words:
        return counter.words((*self.key, purpose), 0, count)


def bits(kind: str, dtype: SourceDtype, shape: tuple[int, int, int], role: Role, seed: int) -> Bits:
    """Return the storage bits of a tensor `[tokens, heads, dim]`, uint16 (uint32 for fp32).

    Finite values that a factor drives past the dtype's greatest become the greatest: only `inf` holds infinities.
    Raises ValueError where `kind` is not accepted.
    """
    name, factor = _parse(kind)
    tokens, heads, dim = shape
    draw = _Draw(("values", name, dtype, tokens, heads, dim, role, seed), tokens * heads, dim, dtype)
    if draw.rows * dim == 0:
        return dtypes.from_float64(np.zeros(shape), dtype)
    scaled = _KINDS[name](draw) * factor
    limit = dtypes.greatest(dtype)
    drawn = dtypes.from_float64(np.where(np.isinf(scaled), scaled, np.clip(scaled, -limit, limit)), dtype)
    return drawn.reshape(shape)


def check(kind: str) -> str | None:
    """Say why `kind` is not accepted, or None where it is."""
    try:
        _parse(kind)
    except ValueError as error:
        return str(error)
    return None


def _parse(kind: str) -> tuple[str, float]:
    """Return the name and the factor. Raises ValueError with the reason why there are none."""
    name, star, text = kind.partition("*")
    if name not in _KINDS:
        raise ValueError(f"{name!r} is not a kind of values")
    if not star:
        return name, 1.0
    factor = factors.parse(text)
    if factor is None:
        raise ValueError(f"the factor {text!r} is not {factors.ACCEPTED}")
    if not _LEAST <= factor <= _GREATEST:
        raise ValueError(f"the factor {text!r} is outside 2^-200..2^200")
    return name, factor


def _normal(draw: _Draw) -> Values:
    """Draw nearly normal values, deviation 1: the sum of eight uniform 16-bit integers. Within ±4.9, and never zero."""
    size = draw.rows * draw.dim
    values = np.empty(size)
    for start in range(0, size, _CHUNK):
        count = min(_CHUNK, size - start)
        drawn = counter.words((*draw.key, "normal"), 2 * start, 2 * count)
        sums = drawn.astype("<u8").view("<u2").reshape(count, 8).sum(axis=1, dtype=np.int64)
        # The mean is 262140 and the deviation 53510; half a unit beside the mean, no sum is zero.
        values[start : start + count] = (sums - 262139.5) / 53510.0
    return values.reshape(draw.rows, draw.dim)


def _fraction(draw: _Draw, purpose: str) -> Values:
    """Draw uniformly in [0, 1), multiples of 2^-53."""
    size = draw.rows * draw.dim
    drawn: Values = (draw.words(purpose, size) >> np.uint64(11)) * 2.0**-53
    return drawn.reshape(draw.rows, draw.dim)


def _uniform(draw: _Draw) -> Values:
    """Draw uniformly in [-1, 1)."""
    return _fraction(draw, "uniform") * 2.0 - 1.0


def _offset(draw: _Draw) -> Values:
    """Draw uniformly in [5, 6]: a minimum or maximum that also sees a zero is wrong."""
    return _fraction(draw, "offset") + 5.0


def _outlier(draw: _Draw) -> Values:
    """Draw as normal, one element of each row 100 times as large."""
    values = _normal(draw)
    values[np.arange(draw.rows), _positions(draw, "outlier")] *= 100.0
    return values


def _zero_rows(draw: _Draw) -> Values:
    """Draw as normal, about a third of the rows zero: one at least, and where there are two rows not all."""
    drawn = draw.words("zero rows", draw.rows)
    zero = drawn % np.uint64(3) == 0
    first = int(drawn[0] // np.uint64(3)) % draw.rows
    zero[(first + 1) % draw.rows] = False
    zero[first] = True
    return np.where(zero[:, None], 0.0, _normal(draw))


def _constant(draw: _Draw) -> Values:
    """Draw one value a row, drawn as normal ones are."""
    return np.repeat(_normal(_Draw(draw.key, draw.rows, 1, draw.dtype)), draw.dim, axis=1)


def _all_zero(draw: _Draw) -> Values:
    return np.zeros((draw.rows, draw.dim))


def _sprinkled(special: float) -> Callable[[_Draw], Values]:
    """Draw as normal, but ±`special` in half of the rows, one element in sixteen; one of each sign where there is room.

    No row is all special: one element of each is left alone, so rows of one element stay as they are.
    """

    def kind(draw: _Draw) -> Values:
        values = _normal(draw)
        drawn = draw.words("special", values.size).reshape(values.shape)
        hit = (drawn % np.uint64(16) == 0) & (draw.words("special rows", draw.rows) % np.uint64(2) == 0)[:, None]
        negative = drawn & np.uint64(16) != 0
        kept = _positions(draw, "kept")
        for nth, sign in enumerate((False, True)):
            row, step = (draw.rows - 1, 1) if draw.rows > 1 and nth else (0, 1 + nth)
            place = (kept[row] + step) % draw.dim
            hit[row, place], negative[row, place] = True, sign
        hit[np.arange(draw.rows), kept] = False
        return np.where(hit, np.where(negative, -special, special), values)

    return kind


def _from_table(table: Callable[[SourceDtype], Values], *, anchored: bool = True) -> Callable[[_Draw], Values]:
    """Draw the entries of a table in drawn order, every one before any comes again; ±448 once a row where anchored."""

    def kind(draw: _Draw) -> Values:
        entries = table(draw.dtype)
        room = draw.rows * (draw.dim - anchored)
        rounds = -(-room // entries.size)
        order = np.argsort(
            draw.words("order", rounds * entries.size).reshape(rounds, entries.size), axis=1, kind="stable"
        )
        listed = entries[order].reshape(-1)[:room]
        if not anchored:
            return listed.reshape(draw.rows, draw.dim)
        values = np.empty((draw.rows, draw.dim))
        anchor = np.zeros(values.shape, dtype=np.bool_)
        anchor[np.arange(draw.rows), _positions(draw, "anchor")] = True
        values[~anchor] = listed
        negative = draw.words("anchor sign", draw.rows) % np.uint64(2) == 1
        values[anchor] = np.where(negative, -edge_values.ANCHOR, edge_values.ANCHOR)
        return values

    return kind


def _positions(draw: _Draw, purpose: str) -> npt.NDArray[np.int64]:
    """Draw an index into each row, `[rows]`."""
    drawn: counter.Words = draw.words(purpose, draw.rows) % np.uint64(draw.dim)
    return drawn.astype(np.int64)


_KINDS: dict[str, Callable[[_Draw], Values]] = {
    "normal": _normal,
    "uniform": _uniform,
    "outlier": _outlier,
    "offset": _offset,
    "zero_rows": _zero_rows,
    "grid": _from_table(edge_values.grid),
    "midpoints": _from_table(edge_values.midpoints),
    "subnormal_codes": _from_table(edge_values.subnormal_codes),
    "negative_zero": _from_table(edge_values.negative_zero),
    "traps": _from_table(edge_values.traps),
    "overflow": _from_table(edge_values.overflow, anchored=False),
    "nan": _sprinkled(float("nan")),
    "inf": _sprinkled(float("inf")),
    "constant": _constant,
    "all_zero": _all_zero,
}

ACCEPTED = f"{', '.join(_KINDS)}, each alone or times a factor: 'normal*5', 'grid*2^-3'"
