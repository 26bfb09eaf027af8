"""Codes apart: how many steps above zero, and the sign. Faults of encoders are easier to say of these."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvcheck.formats.spec import Format

Codes = npt.NDArray[np.uint8]
Steps = npt.NDArray[np.int64]


def magnitudes(codes: Codes, number_format: Format) -> Steps:
    """The steps above zero of codes, in their shape. NaN and infinity lie beyond `largest`; 0x80 of int8 is 128."""
    if number_format.integer:
        steps: Steps = np.abs(codes.view(np.int8).astype(np.int64))
        return steps
    return np.asarray(codes & np.uint8(0x7F), np.int64)


def signed(steps: Steps, negative: npt.NDArray[np.bool_], number_format: Format) -> Codes:
    """The codes of steps from 0 to 127 with a sign; of a zero, too, where the format has -0."""
    minus = (256 - steps) & 0xFF if number_format.integer else steps | 0x80
    if not number_format.negative_zero:
        minus = np.where(steps == 0, 0, minus)
    return np.where(negative, minus, steps).astype(np.uint8)
