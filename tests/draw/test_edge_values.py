"""The tables of edge values against ml_dtypes' e4m3."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from kvcheck.draw import edge_values
from kvcheck.draw.dtypes import SourceDtype, from_float64, to_float32
from kvcheck.draw.edge_values import Values

GRID = np.arange(0x7F, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
TABLES: list[Callable[[SourceDtype], Values]] = [
    edge_values.grid,
    edge_values.midpoints,
    edge_values.subnormal_codes,
    edge_values.negative_zero,
    edge_values.traps,
    edge_values.overflow,
]


def _next(values: Values, dtype: SourceDtype, step: int) -> list[float]:
    bits = from_float64(values, dtype).astype(np.int64) + step
    return [float(value) for value in to_float32(bits.astype(np.uint32), dtype)]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_every_entry_is_a_value_of_the_dtype(table: Callable[[SourceDtype], Values], dtype: SourceDtype) -> None:
    """No entry moves when it is stored."""
    entries = table(dtype)
    stored = to_float32(from_float64(entries, dtype), dtype)
    assert entries.dtype == np.float64
    np.testing.assert_array_equal(stored, entries)
    np.testing.assert_array_equal(np.signbit(stored), np.signbit(entries))


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_grid_is_every_finite_code(dtype: SourceDtype) -> None:
    """All 254 finite codes, both zeros among them."""
    codes = edge_values.grid(dtype).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    assert sorted(codes.tolist()) == [*range(0x7F), *range(0x80, 0xFF)]


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_midpoints_have_both_neighbours(dtype: SourceDtype) -> None:
    """126 midpoints of each sign, each with the next stored value on both sides."""
    middle: Values = (GRID[1:] + GRID[:-1]) / 2
    wanted = {*middle.tolist(), *_next(middle, dtype, -1), *_next(middle, dtype, 1)}
    entries = edge_values.midpoints(dtype).tolist()
    assert len(entries) == 2 * 3 * 126
    assert set(entries) == wanted | {-value for value in wanted}


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_subnormal_codes_and_their_ties(dtype: SourceDtype) -> None:
    """Codes 0 to 8, the eight ties between them with neighbours, half of the first tie, and the last rounding up."""
    step = 2.0**-9
    ties = np.array([(code + 0.5) * step for code in range(8)])
    wanted = {*(np.arange(9) * step).tolist(), *ties.tolist(), step / 4, 7.75 * step}
    wanted |= {*_next(ties, dtype, -1), *_next(ties, dtype, 1)}
    assert set(edge_values.subnormal_codes(dtype).tolist()) == wanted | {-value for value in wanted}


def test_negative_zero_has_underflow_of_both_signs() -> None:
    """Several entries encode as 0x80, several as 0x00, and some as neither."""
    codes = edge_values.negative_zero("bf16").astype(ml_dtypes.float8_e4m3fn).view(np.uint8).tolist()
    assert codes.count(0x80) == 4
    assert codes.count(0x00) == 2
    assert len(codes) == 10


def test_traps_and_overflow_are_there() -> None:
    """The values of known reports, in fp32; in bf16 as near as it holds."""
    assert {float(np.float32(400.199585)), float(np.float32(-17.03))} <= set(edge_values.traps("fp32").tolist())
    assert 400.0 in edge_values.traps("bf16")
    overflow = edge_values.overflow("fp32").tolist()
    assert {448.0, 464.0, -464.0, *_next(np.array([464.0]), "fp32", 1), 1000.0} <= set(overflow)
