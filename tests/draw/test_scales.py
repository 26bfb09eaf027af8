"""Given scales."""

from typing import Literal

import numpy as np
import pytest

from kvcheck.draw import dtypes
from kvcheck.draw.scales import check, given


def test_one_a_tensor() -> None:
    """One scale a tensor is the number, in fp32, whatever the heads."""
    drawn = given("0.0123", "tensor", 3)
    assert drawn.dtype == np.float32
    assert drawn.tolist() == [float(np.float32(0.0123))]


def test_one_a_head_varies_in_powers_of_two() -> None:
    """The first eight have powers of two of the number; those behind are an eighth more."""
    assert given("2^-3", "head", 9).tolist() == [0.125, 0.25, 0.0625, 0.5, 0.03125, 1.0, 0.015625, 2.0, 0.140625]
    assert given("1", "head", 1).tolist() == [1.0]


@pytest.mark.parametrize("spec", ["0", "-1", "nan", "", "2^-121", "2^121", "normal"])
def test_what_is_no_scale_says_why(spec: str) -> None:
    """A reason in one line that holds the text; drawing raises it."""
    reason = check(spec)
    assert reason is not None
    assert repr(spec) in reason
    with pytest.raises(ValueError, match=r"is (not|outside)"):
        given(spec, "tensor", 1)


@pytest.mark.parametrize("spec", ["1", "2^-3", "0.0123", "2^-120", "2^120"])
def test_scales_are_accepted(spec: str) -> None:
    """Every head's scale of an accepted spec is a finite normal fp32 value."""
    assert check(spec) is None
    drawn = given(spec, "head", 64)
    assert np.isfinite(drawn).all()
    assert (drawn >= np.finfo(np.float32).tiny).all()


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("spec", ["2^-3", "1", "0.0123", "3.7"])
def test_64_heads_have_scales_of_their_own(spec: str, dtype: Literal["bf16", "fp16", "fp32"]) -> None:
    """A kernel that takes the scale of the head modulo four, say, is wrong in every other head; in each dtype."""
    scales = given(spec, "head", 65)
    kept = scales if dtype == "fp32" else dtypes.to_float32(dtypes.from_float32(scales, dtype), dtype)
    assert len(set(kept[:64].tolist())) == 64
    assert kept[64] == kept[0]
