"""Of which kind a difference is: one table, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kvcheck.encode.kinds import KINDS, kinds
from kvcheck.formats.spec import E4M3FN, E5M2, INT8, Format


@pytest.mark.parametrize(
    ("x", "want", "got", "kind", "number_format"),
    [
        (1.0, 0x38, 0x38, None, E4M3FN),
        (1.0625, 0x38, 0x39, "rounding", E4M3FN),
        (31.6, 0x60, 0x58, "rounding", E4M3FN),
        (1.0, 0x38, 0xB8, "rounding", E4M3FN),
        (440.0, 0x7E, 0x7D, "rounding", E4M3FN),
        (430.0, 0x7D, 0x7E, "rounding", E4M3FN),
        (300.0, 0x79, 0x7E, "overflow", E4M3FN),
        (300.0, 0x79, 0x7F, "overflow", E4M3FN),
        (470.0, 0x7E, 0x7F, "overflow", E4M3FN),
        (450.0, 0x7E, 0x7D, "overflow", E4M3FN),
        (np.inf, 0x7E, 0x78, "overflow", E4M3FN),
        (1.0, 0x3C, 0x7C, "overflow", E5M2),
        (np.nan, 0x7F, 0xFF, "nan", E4M3FN),
        (np.nan, 0x7F, 0x7E, "nan", E4M3FN),
        (-0.0, 0x80, 0x00, "negative_zero", E4M3FN),
        (-1e-9, 0x80, 0x00, "negative_zero", E4M3FN),
        (0.003, 0x02, 0x01, "subnormal", E4M3FN),
        (0.0156, 0x08, 0x07, "subnormal", E4M3FN),
        (0.6, 0x01, 0x00, "rounding", INT8),
        (-3.6, 0xFC, 0xFD, "rounding", INT8),
        (-200.0, 0x81, 0x80, "overflow", INT8),
        (3.0, 0x03, 0x7F, "overflow", INT8),
        (-3.0, 0xFD, 0x81, "overflow", INT8),
    ],
)
def test_kinds(x: float, want: int, got: int, kind: str | None, number_format: Format) -> None:
    """By the input first, then by what became of it."""
    pattern = np.array([x], dtype=np.float32).view(np.uint32)
    (found,) = kinds(pattern, np.array([want], np.uint8), np.array([got], np.uint8), number_format)
    assert (None if found < 0 else KINDS[found]) == kind
