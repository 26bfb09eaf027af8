"""Covering arrays: complete for what can be had, deterministic, stable, fast."""

import itertools
import time
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.matrix.axes import Value
from kvcheck.matrix.covering import cover

Axes = Mapping[str, Sequence[Value]]
AXES = st.dictionaries(
    st.sampled_from("abcde"), st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True), min_size=1
)
MIXED = {f"axis{n}": [f"v{v}" for v in range(size)] for n, size in enumerate([12, 12, 8, 8, 6, 6, 5, 5, 4, 3, 3, 2, 2])}


def _dropped(row: Mapping[str, Value], excludes: Sequence[Axes]) -> bool:
    return any(all(row[name] in values for name, values in exclude.items()) for exclude in excludes)


def _combinations(rows: Sequence[Mapping[str, Value]], strength: int) -> set[tuple[tuple[str, Value], ...]]:
    """Return every combination of `strength` axes' values that occurs in a row."""
    return {chosen for row in rows for chosen in itertools.combinations(sorted(row.items()), min(strength, len(row)))}


def _product(axes: Axes, excludes: Sequence[Axes]) -> list[dict[str, Value]]:
    rows = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    return [row for row in rows if not _dropped(row, excludes)]


@st.composite
def _problems(draw: st.DrawFn) -> tuple[Axes, list[Axes]]:
    """Draw axes, and excludes over some of them."""
    axes = draw(AXES)
    exclude = st.dictionaries(st.sampled_from(sorted(axes)), st.lists(st.integers(0, 4), min_size=1), min_size=1)
    return axes, draw(st.lists(exclude, max_size=4))


@given(_problems(), st.integers(1, 3), st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_every_combination_that_a_case_can_have_occurs(
    problem: tuple[Axes, list[Axes]], strength: int, seed: int
) -> None:
    """Against the whole product: the same combinations, no excluded row, no row twice, in the product's order."""
    axes, excludes = problem
    rows = cover(axes, excludes, strength, seed)
    product = _product(axes, excludes)
    assert _combinations(rows, strength) == _combinations(product, strength)
    assert [product.index(row) for row in rows] == sorted({product.index(row) for row in rows})
    if strength >= len(axes):
        assert rows == product


def test_an_exclude_can_make_a_value_impossible() -> None:
    """When every partner of a value is excluded, in two steps, it does not occur, and the others still do."""
    axes = {"a": [1, 2], "b": [1, 2], "c": [1, 2, 3]}
    excludes: list[Axes] = [{"a": [1], "b": [1]}, {"a": [1], "b": [2], "c": [1, 2]}, {"b": [2], "c": [3]}]
    rows = cover(axes, excludes, 2, 0)
    assert all(row["a"] == 2 for row in rows)
    assert _combinations(rows, 2) == _combinations(_product(axes, excludes), 2)


def test_everything_excluded_is_nothing() -> None:
    """No row is made up."""
    assert cover({"a": [1, 2], "b": [1]}, [{"a": [1, 2]}], 2, 0) == []


def test_rows_are_few_and_the_same_every_time() -> None:
    """Far fewer than the product, near the least (144 pairs of two axes), another set for another seed."""
    rows = cover(MIXED, [], 2, 0)
    assert 144 <= len(rows) < 260
    assert rows == cover(MIXED, [], 2, 0)
    assert rows != cover(MIXED, [], 2, 1)
    assert len(cover(MIXED, [], 1, 0)) < 24


def test_rows_are_pinned() -> None:
    """The same rows on every machine, so that ids agree."""
    rows = cover({"a": [1, 2, 3], "b": ["x", "y"], "c": [0, 1]}, [], 2, 0)
    assert [tuple(row.values()) for row in rows] == [
        (1, "x", 0),
        (1, "y", 1),
        (2, "x", 1),
        (2, "y", 0),
        (3, "x", 1),
        (3, "y", 0),
    ]


@pytest.mark.parametrize("name", ["axis0", "axis6", "axis9"])
def test_a_new_value_keeps_most_cases(name: str) -> None:
    """When an axis gains a value, wherever in its list, at least half of the cases stay."""
    before = {tuple(row.items()) for row in cover(MIXED, [], 2, 0)}
    grown = {**MIXED, name: ["new", *MIXED[name]]}
    after = {tuple(row.items()) for row in cover(grown, [], 2, 0)}
    assert len(before & after) >= 0.5 * len(before)


def test_the_order_in_a_file_plays_no_part() -> None:
    """Axes and values listed otherwise give the same cases."""
    turned = {name: values[::-1] for name, values in reversed(MIXED.items())}
    there = [dict(sorted(row.items())) for row in cover(turned, [], 2, 0)]
    here = [dict(sorted(row.items())) for row in cover(MIXED, [], 2, 0)]
    assert sorted(map(str, here)) == sorted(map(str, there))


def test_sixteen_axes_of_twelve_take_little_time() -> None:
    """Pairs of 16 axes of 12 values; processor time, as machines are shared."""
    axes = {f"axis{n}": list(range(12)) for n in range(16)}
    began = time.process_time()
    rows = cover(axes, [{"axis0": [1, 2], "axis1": [3]}], 2, 0)
    assert time.process_time() - began < 1
    assert len(rows) < 600


def test_an_exclude_of_no_axis_drops_every_row() -> None:
    """All of nothing matches: where what is fixed matches an exclude, no row is left."""
    assert cover({"a": [1, 2], "b": [1]}, [{}], 2, 0) == []
