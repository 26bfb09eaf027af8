"""fp32 to narrower types, against numpy's fp16 and ml_dtypes' bf16."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.formats.cast import bf16_patterns, fp16_patterns, power_of_two_above, round_to

Patterns = npt.NDArray[np.uint32]


def _same(ours: Patterns, theirs: npt.NDArray[np.float32]) -> bool:
    """Whether all are the same bits, or both NaN."""
    nan = np.isnan(theirs)
    return bool(np.all(np.where(nan, np.isnan(ours.view(np.float32)), ours == theirs.view(np.uint32))))


def test_fp16_to_nearest_is_numpys(patterns: Patterns) -> None:
    """Every bf16 and fp16 value, and every neighbour of a tie of fp16, becomes what numpy says."""
    with np.errstate(over="ignore", invalid="ignore"):
        theirs = patterns.view(np.float32).astype(np.float16).astype(np.float32)
    assert _same(fp16_patterns(patterns), theirs)


def test_fp16_toward_zero_never_grows(patterns: Patterns) -> None:
    """Toward zero gives the fp16 value at or next below the magnitude; finite values stop at 65504."""
    with np.errstate(over="ignore", invalid="ignore"):
        x = patterns.view(np.float32)
        near = x.astype(np.float16)
        beyond = np.abs(near.astype(np.float32)) > np.abs(x)
        theirs = np.where(beyond, np.nextafter(near, np.float16(0)), near).astype(np.float32)
    assert _same(fp16_patterns(patterns, toward_zero=True), theirs)


def test_bf16_is_a_third_implementations(patterns: Patterns) -> None:
    """Every input becomes ml_dtypes' bf16; a NaN whose payload lies in the lower half stays NaN."""
    with np.errstate(invalid="ignore"):
        theirs = patterns.view(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)
    assert _same(bf16_patterns(patterns), theirs)


@pytest.mark.parametrize(
    ("value", "up"),
    [
        (1.0, 1.0),
        (1.0000001, 2.0),
        (0.75, 1.0),
        (2.0**-149, 2.0**-149),
        (3 * 2.0**-149, 2.0**-147),
        (2.0**127, 2.0**127),
        (3e38, np.inf),
        (0.0, 0.0),
        (np.inf, np.inf),
    ],
)
def test_powers_of_two_are_rounded_up(value: float, up: float) -> None:
    """A power of two stays; anything above it becomes the next, subnormals included; beyond 2^127 is infinity."""
    assert power_of_two_above(np.array([value], dtype=np.float32))[0] == np.float32(up)


@given(st.floats(min_value=2.0**-126, max_value=2.0**126, width=32))
def test_power_of_two_above_is_the_least(value: float) -> None:
    """The result is a power of two, no smaller than the value, and less than twice it."""
    up = float(power_of_two_above(np.array([value], dtype=np.float32))[0])
    assert value <= up < 2 * value
    assert np.frexp(up)[0] == 0.5


@pytest.mark.parametrize(
    ("value", "up"), [(0.0, 2.0**-127), (2.0**-140, 2.0**-127), (0.3, 0.5), (3e38, 2.0**127), (np.inf, 2.0**127)]
)
def test_ue8m0_stays_within_its_exponents(value: float, up: float) -> None:
    """E8M0 has no zero and no infinity: both ends saturate."""
    assert round_to(np.array([value], dtype=np.float32), "ue8m0")[0] == np.float32(up)


def test_nan_stays_nan_in_every_type() -> None:
    """A NaN scale stays one whatever it is stored as."""
    for dtype in ("fp32", "fp16", "bf16", "ue8m0"):
        assert np.isnan(round_to(np.array([np.nan], dtype=np.float32), dtype)).all()


def test_round_to_keeps_shape_and_layout_apart() -> None:
    """A strided, a broadcast and a single value are rounded as what they show."""
    x = np.array([[1.001, 2.0], [3.003, 70000.0]], dtype=np.float32)
    assert round_to(x.T, "bf16").tolist() == [[1.0, 3.0], [2.0, 70144.0]]
    assert round_to(np.broadcast_to(x[:, :1], (2, 3)), "fp16").shape == (2, 3)
    assert round_to(x, "fp16")[1, 1] == np.inf
    assert round_to(np.array(1.001, dtype=np.float32), "bf16").shape == ()
