"""Cells: what was seen of an encoder, condensed without loss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.encode.cells import Cells, merged, of_runs, of_samples
from kvcheck.encode.steps import ROUNDINGS, points, steps, top
from kvcheck.formats.spec import E4M3FN, FORMATS, Format


def rows(cells: Cells) -> list[tuple[int, int, int, int]]:
    """Cell, code, count and first of each row."""
    return list(zip(*(each.tolist() for each in (cells.cell, cells.got, cells.count, cells.first)), strict=True))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, (1 << 32) - 4096),
    st.lists(st.tuples(st.integers(0, 255), st.integers(1, 300)), min_size=1, max_size=8),
)
def test_runs_are_the_inputs_they_stand_for(start: int, runs: list[tuple[int, int]]) -> None:
    """Cells of runs equal cells of every input in them, one by one, wherever they begin."""
    codes = np.concatenate([np.full(length, code, dtype=np.uint8) for code, length in runs])
    patterns = np.arange(start, start + len(codes), dtype=np.int64).astype(np.uint32)
    starts = start + np.cumsum([0, *(length for _, length in runs[:-1])])
    made = of_runs(starts, np.array([code for code, _ in runs], dtype=np.uint8), start + len(codes), E4M3FN)
    assert rows(made) == rows(of_samples(patterns, codes, E4M3FN))
    assert made.inputs == len(codes)


def test_merged_cells_are_those_of_all_inputs() -> None:
    """Counts add up, and the first is the least."""
    patterns = np.arange(0x43E00000 - 500, 0x43E00000 + 500, dtype=np.uint32)
    codes = (patterns & 7).astype(np.uint8)
    halves = [of_samples(patterns[part], codes[part], E4M3FN) for part in (slice(500, None), slice(500))]
    assert rows(merged(halves)) == rows(of_samples(patterns, codes, E4M3FN))


def test_a_cell_begins_at_the_last_point_before_its_inputs() -> None:
    """A point itself belongs to the cell that it begins, the pattern before it to the one before."""
    grid = points(E4M3FN)[1:]
    patterns = np.concatenate([grid, grid - 1]).astype(np.uint32)
    found = of_samples(patterns, np.zeros(len(patterns), dtype=np.uint8), E4M3FN)
    expected: dict[int, int] = {}
    for pattern in patterns.tolist():
        cell = max(point for point in points(E4M3FN).tolist() if point <= pattern)
        expected[cell] = min(expected.get(cell, pattern), pattern)
    assert dict(zip(found.cell.tolist(), found.first.tolist(), strict=True)) == expected


def test_rows_ascend_by_magnitude() -> None:
    """Positive before negative, so that the smallest example comes first."""
    patterns = np.array([0xC0000000, 0x3F800000, 0xBF800000, 0x40000000], dtype=np.uint32)
    found = of_samples(patterns, np.array([1, 2, 3, 4], dtype=np.uint8), E4M3FN)
    assert found.got.tolist() == [2, 3, 4, 1]


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("number_format", FORMATS.values(), ids=lambda each: each.name)
def test_roundings_do_not_change_within_a_cell(number_format: Format, rounding: str) -> None:
    """At the last input of a cell, and at random ones, every rounding gives what it gives at the first."""
    grid = points(number_format)
    ends = np.append(grid[1:], 1 << 32) - 1
    inner = np.random.default_rng(1).integers(grid, ends + 1, (20, len(grid)))
    first = steps(grid.astype(np.uint32), number_format, rounding)  # type: ignore[arg-type]
    for others in (ends, *inner):
        found = steps(others.astype(np.uint32), number_format, rounding)  # type: ignore[arg-type]
        assert np.array_equal(found, first)
    assert first.max() == top(number_format)
