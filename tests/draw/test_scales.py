"""Given scales."""

import numpy as np
import pytest

from kvcheck.draw.scales import check, given


def test_one_a_tensor() -> None:
    """One scale a tensor is the number, in fp32, whatever the heads."""
    drawn = given("0.0123", "tensor", 3)
    assert drawn.dtype == np.float32
    assert drawn.tolist() == [float(np.float32(0.0123))]


def test_one_a_head_varies_in_powers_of_two() -> None:
    """Neighbouring heads have different scales, a power of two apart."""
    assert given("2^-3", "head", 6).tolist() == [0.125, 0.25, 0.0625, 0.5, 0.125, 0.25]
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
    drawn = given(spec, "head", 4)
    assert np.isfinite(drawn).all()
    assert (drawn >= np.finfo(np.float32).tiny).all()
