"""Of which kind a difference is, from the input, the right code and the code that was given."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from kvcheck.encode.models import Codes, is_nan, is_number, is_subnormal, is_zero
from kvcheck.encode.steps import MAGNITUDE, Patterns, largest_value
from kvcheck.formats.spec import Format

Kind: TypeAlias = Literal["rounding", "overflow", "nan", "negative_zero", "subnormal"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def kinds(patterns: Patterns, want: Codes, got: Codes, number_format: Format) -> npt.NDArray[np.int8]:
    """The index into `KINDS` for each input whose code differs, -1 where it does not.

    `nan`: the input is NaN. `overflow`: the input lies beyond the largest value, or a number became infinite, NaN or
    the largest value from more than a step away. `negative_zero`: both codes are zeros. `subnormal`: the input lies
    below the least normal value. `rounding`: all else.
    """
    beyond = (patterns & MAGNITUDE) > largest_value(number_format)
    lost = is_number(want, number_format) & ~is_number(got, number_format)
    jumped = (_step(got, number_format) == number_format.largest) & (
        _step(want, number_format) < number_format.largest - 1
    )
    found = np.select(
        [
            got == want,
            is_nan(patterns),
            beyond | lost | jumped,
            is_zero(got, number_format) & is_zero(want, number_format),
            is_subnormal(patterns, number_format),
        ],
        [-1, KINDS.index("nan"), KINDS.index("overflow"), KINDS.index("negative_zero"), KINDS.index("subnormal")],
        KINDS.index("rounding"),
    )
    return found.astype(np.int8)


def _step(codes: Codes, number_format: Format) -> npt.NDArray[np.int64]:
    """How many values above zero a number's magnitude is."""
    wide = codes.astype(np.int64)
    if number_format.integer:
        return np.where(wide > 0x80, 256 - wide, wide)
    return wide & 0x7F
