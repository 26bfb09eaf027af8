"""Models of libdevice's functions: values written down, and numbers' own laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.lowering.libdevice import SYMBOLS, away, flushed, model

TINY = 2.0**-126
INF, NAN = math.inf, math.nan


def result(symbol: str, *operands: float) -> np.generic:
    """What the model of a symbol gives for one operand of fp32 each."""
    function = model(f"__nv_{symbol}")
    assert function is not None
    with np.errstate(all="ignore"):
        found: np.generic = np.asarray(function(*(np.array([each], dtype=np.float32) for each in operands)))[0]
    return found


@pytest.mark.parametrize(
    ("symbol", "operands", "expected"),
    [
        ("rintf", (0.5,), 0.0), ("rintf", (1.5,), 2.0), ("rintf", (-2.5,), -2.0), ("nearbyintf", (3.5,), 4.0),
        ("roundf", (0.5,), 1.0), ("roundf", (-2.5,), -3.0), ("roundf", (0.49999997,), 0.0), ("roundf", (-0.0,), -0.0),
        ("roundf", (8388609.0,), 8388609.0), ("roundf", (INF,), INF), ("roundf", (NAN,), NAN),
        ("truncf", (-1.9,), -1.0), ("floorf", (-1.1,), -2.0), ("ceilf", (1.1,), 2.0), ("ceilf", (-0.5,), -0.0),
        # Subnormals count as zeros of their sign.
        ("floorf", (-1e-40,), -0.0), ("ceilf", (1e-40,), 0.0), ("fabsf", (-1e-40,), 0.0), ("fabsf", (-3.0,), 3.0),
        ("fdiv_rn", (1e-40, 1e-40), NAN), ("fdiv_rn", (TINY, 2.0), 0.0), ("fdiv_rn", (-TINY, 2.0), -0.0),
        ("fdiv_rn", (1.0, 3.0), float(np.float32(1) / np.float32(3))), ("fdiv_rn", (1.0, -0.0), -INF),
        # What is subnormal before it is rounded is flushed, though it would round to the least normal number.
        ("fmul_rn", (TINY, 0.99999994), 0.0), ("fdiv_rn", (2.3509886e-38, 2.0), 0.0),
        ("fmul_rn", (-1.1754945e-38, 0.99999994), -TINY), ("fmul_rn", (TINY, 0.5), 0.0),
        ("fadd_rn", (1.0, 2.0**-24), 1.0), ("fsub_rn", (1.5, 2.5), -1.0),
        ("frcp_rn", (2.0,), 0.5), ("frcp_rn", (3e38,), 0.0), ("fsqrt_rn", (2.0,), float(np.sqrt(np.float32(2)))),
        ("copysignf", (3.0, -0.0), -3.0), ("copysignf", (1e-40, -1.0), -float(np.float32(1e-40))),
        ("saturatef", (NAN,), 0.0), ("saturatef", (-0.0,), 0.0), ("saturatef", (0.25,), 0.25),
        ("saturatef", (7.0,), 1.0),
        ("float2int_rn", (2.5,), 2), ("float2int_rz", (-2.9,), -2), ("float2int_rd", (-2.1,), -3),
        ("float2int_ru", (2.1,), 3), ("float2int_rn", (3e9,), 2**31 - 1), ("float2int_rn", (-INF,), -(2**31)),
        ("float2int_rn", (NAN,), 0), ("float2int_ru", (1e-40,), 0),
        ("float2ll_rn", (INF,), 2**63 - 1), ("llrintf", (-1e30,), -(2**63)), ("llrintf", (NAN,), -(2**63)),
        ("llrintf", (-3.5,), -4),
        ("float_as_int", (1.0,), 0x3F800000), ("isnanf", (NAN,), 1), ("isnanf", (INF,), 0), ("isinff", (-INF,), 1),
        ("finitef", (1.0,), 1), ("signbitf", (-0.0,), 1),
    ],
)  # fmt: skip
def test_a_function_gives(symbol: str, operands: tuple[float, ...], expected: float) -> None:
    """Values and signs; integers where the function gives integers."""
    found = result(symbol, *operands)
    if math.isnan(expected):
        assert np.isnan(found)
        return
    assert found == expected
    assert np.signbit(np.float64(found)) == np.signbit(np.float64(expected))
    assert isinstance(found, np.signedinteger) == isinstance(expected, int)


def test_integers_are_read_as_floats() -> None:
    """By value to nearest even, or by their bits."""
    for symbol, given_, expected in (("int2float_rn", 2**24 + 1, 2.0**24), ("int_as_float", 0x3FC00000, 1.5)):
        function = model(f"__nv_{symbol}")
        assert function is not None
        assert function(np.array([given_], dtype=np.int32)).tolist() == [expected]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_half_away_is_the_nearest_and_odd(value: float) -> None:
    """Never farther than a half, whole, and of the opposite for the opposite."""
    x = np.array([value], dtype=np.float32)
    found = away(x)
    assert found.dtype == np.float32
    assert abs(float(found[0]) - value) <= 0.5
    assert float(found[0]).is_integer()
    assert away(-x) == -found
    if abs(value) < 2**22 and (2 * value).is_integer() and not value.is_integer():
        assert abs(found[0]) == abs(value) + 0.5


@given(st.floats(width=32))
def test_flushing_keeps_all_but_subnormals(value: float) -> None:
    """And their signs."""
    found = flushed(np.array([value], dtype=np.float32))[0]
    assert found.dtype == np.float32
    expected = value if not abs(value) < TINY else math.copysign(0.0, value)
    assert np.array_equal(found, np.float32(expected), equal_nan=True)
    assert math.isnan(value) or np.signbit(found) == (math.copysign(1.0, value) < 0)


def test_approximations_have_no_model() -> None:
    """What differs between GPUs is not guessed."""
    assert all(model(f"__nv_{name}") is None for name in ("fast_fdividef", "sqrtf", "exp2f", "rsqrtf", "fmaf"))
    assert len(SYMBOLS) == len(set(SYMBOLS))
