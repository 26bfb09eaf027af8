"""Codes to values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from kvcheck.errors import FormatError
from kvcheck.formats.decode import decode

CODES = np.arange(256, dtype=np.uint8)
THIRD = {
    "e4m3fn": ml_dtypes.float8_e4m3fn,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2": ml_dtypes.float8_e5m2,
    "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "int8": np.int8,
}


@pytest.mark.parametrize("name", THIRD)
def test_all_codes_have_the_values_of_a_third_implementation(name: str) -> None:
    """Every code of every format has ml_dtypes' value, signs of zero included; NaN where that has NaN."""
    ours, theirs = decode(CODES, name), CODES.view(THIRD[name]).astype(np.float32)
    assert np.array_equal(np.isnan(ours), np.isnan(theirs))
    number = ~np.isnan(ours)
    assert np.array_equal(ours[number].view(np.uint32), theirs[number].view(np.uint32))


@pytest.mark.parametrize(
    ("name", "code", "value"),
    [
        ("e4m3fn", 0x7E, 448.0),
        ("e4m3fn", 0x01, 2.0**-9),
        ("e4m3fn", 0x08, 2.0**-6),
        ("e4m3fnuz", 0x7F, 240.0),
        ("e5m2", 0xFB, -57344.0),
        ("e5m2", 0xFC, -np.inf),
        ("e5m2fnuz", 0x7F, 57344.0),
        ("int8", 0x80, -128.0),
    ],
)
def test_named_values(name: str, code: int, value: float) -> None:
    """The largest, the least and the first normal values are those of the specifications."""
    assert decode(np.array([code], dtype=np.uint8), name)[0] == np.float32(value)


def test_shape_is_kept() -> None:
    """Codes of any shape give values of that shape, a single code included."""
    assert decode(CODES.reshape(2, 8, 16)).shape == (2, 8, 16)
    assert decode(np.array(0x38, dtype=np.uint8)) == np.float32(1)


def test_other_dtypes_are_refused() -> None:
    """Codes are bytes: int8 values would be misread as such."""
    wrong: npt.NDArray[np.int8] = CODES.view(np.int8)
    with pytest.raises(FormatError, match="cannot decode int8; expected uint8"):
        decode(wrong)  # type: ignore[arg-type]
