"""Reading stored scales, and writing them back."""

from __future__ import annotations

import numpy as np
import pytest

from kvcheck.emission import scale_bytes, scale_values
from kvcheck.schema import Dtype, Placed


def placed(dtype: Dtype) -> Placed:
    """A tensor of scales of that dtype."""
    return Placed("k_scales", 0, 0, dtype, (1, 1, 1), (1, 1, 1))


def test_ue8m0_is_two_to_the_byte_less_127() -> None:
    """All 256 bytes: 2^-127, a subnormal, to 2^127; 255 is NaN; and back again."""
    raw = np.arange(256, dtype=np.uint8)[:, None]
    values = scale_values(raw, placed("uint8"))
    assert values[:255].tolist() == [2.0 ** (byte - 127) for byte in range(255)]
    assert np.isnan(values[255])
    assert (scale_bytes(values, placed("uint8")) == raw).all()


@pytest.mark.parametrize(("dtype", "item"), [("bf16", 2), ("fp16", 2), ("fp32", 4)])
def test_numbers_come_back_bit_for_bit(dtype: Dtype, item: int) -> None:
    """Every pattern of 16 bits, a sample of 32, in little-endian bytes; NaNs apart."""
    if item == 2:
        bits = np.arange(1 << 16, dtype=np.uint32).astype("<u2")
    else:
        bits = np.random.default_rng(0).integers(0, 1 << 32, 4096, dtype=np.uint32).astype("<u4")
    raw = bits[:, None].view(np.uint8)
    values = scale_values(raw, placed(dtype))
    number = ~np.isnan(values)
    assert number.sum() > 4000
    assert (scale_bytes(values, placed(dtype))[number] == raw[number]).all()


def test_known_scales() -> None:
    """One, in each dtype."""
    one: dict[Dtype, bytes] = {"uint8": b"\x7f", "bf16": b"\x80\x3f", "fp16": b"\x00\x3c", "fp32": b"\x00\x00\x80\x3f"}
    for dtype, data in one.items():
        raw = np.frombuffer(data, np.uint8)[None]
        assert scale_values(raw, placed(dtype)).tolist() == [1.0]
        assert scale_bytes(np.ones(1, np.float32), placed(dtype)).tobytes() == data
