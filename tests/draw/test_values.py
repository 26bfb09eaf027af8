"""Logical values: pinned bits, what each kind promises at any size, and the grammar."""

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.draw import edge_values
from kvcheck.draw.dtypes import SourceDtype, greatest, to_float32
from kvcheck.draw.values import ACCEPTED, Role, bits, check

KINDS = ACCEPTED.split(", each")[0].split(", ")
ANCHORED = ["grid", "midpoints", "subnormal_codes", "negative_zero", "traps"]
DTYPES = st.sampled_from(["bf16", "fp16", "fp32"])
SHAPES = st.tuples(st.integers(0, 5), st.integers(1, 4), st.sampled_from([1, 2, 3, 8, 46]))
SEEDS = st.integers(0, 3)


def _draw(
    kind: str, dtype: SourceDtype, shape: tuple[int, int, int], role: Role = "k", seed: int = 0
) -> npt.NDArray[np.float32]:
    """Return the values as rows, float32 `[tokens * heads, dim]`."""
    return to_float32(bits(kind, dtype, shape, role, seed), dtype).reshape(-1, shape[2])


def test_bits_are_pinned() -> None:
    """The same bits on every machine."""
    assert bits("normal", "bf16", (1, 1, 4), "k", 0).ravel().tolist() == [0x3FD0, 0x3F3B, 0xBF16, 0xBF16]
    assert bits("normal", "fp32", (1, 1, 2), "k", 0).ravel().tolist() == [0x3DCF895A, 0xBF8DB35C]
    assert bits("normal*5", "fp16", (1, 1, 4), "v", 3).ravel().tolist() == [0xBC0A, 0x4644, 0xC5D8, 0x4565]
    assert bits("midpoints*2^-3", "fp32", (1, 1, 4), "k", 0).ravel().tolist() == [
        0x41680001,
        0x40980001,
        0xC0280000,
        0xC2600000,
    ]


@given(
    st.sampled_from(KINDS), st.sampled_from(["", "*5", "*2^-20", "*1e4", "*2^-200", "*2^200"]), DTYPES, SHAPES, SEEDS
)
def test_every_kind_at_any_size(
    kind: str, factor: str, dtype: SourceDtype, shape: tuple[int, int, int], seed: int
) -> None:
    """The shape and storage type are right, drawing twice is the same, and only `inf` and `nan` are not finite."""
    drawn = bits(kind + factor, dtype, shape, "k", seed)
    assert drawn.shape == shape
    assert drawn.dtype == (np.uint32 if dtype == "fp32" else np.uint16)
    assert drawn.tobytes() == bits(kind + factor, dtype, shape, "k", seed).tobytes()
    values = to_float32(drawn, dtype)
    if kind not in ("nan", "inf"):
        assert np.isfinite(values).all()


def test_draws_depend_on_kind_shape_dtype_role_and_seed() -> None:
    """Each of them gives other bits; a factor scales the same draw."""
    shape = (2, 3, 16)
    base = bits("normal", "bf16", shape, "k", 0).ravel()
    others = [
        bits("uniform", "bf16", shape, "k", 0),
        bits("normal", "bf16", (3, 2, 16), "k", 0),
        bits("normal", "fp16", shape, "k", 0),
        bits("normal", "bf16", shape, "v", 0),
        bits("normal", "bf16", shape, "k", 1),
    ]
    assert all((other.ravel() != base).mean() > 0.9 for other in others)
    np.testing.assert_array_equal(_draw("normal*2^3", "bf16", shape), 8 * _draw("normal", "bf16", shape))


def test_normal_is_nearly_normal() -> None:
    """Mean 0, deviation 1, 68 % within one deviation; across the chunks that it is drawn in."""
    values = _draw("normal", "fp32", (400, 8, 128))
    assert abs(values.mean()) < 0.01
    assert abs(values.std() - 1) < 0.01
    assert abs((np.abs(values) < 1).mean() - 0.68) < 0.01
    chunks = values.ravel()[: 3 << 17].reshape(3, -1)
    assert (chunks[0] != chunks[1]).mean() > 0.99
    assert (chunks[1] != chunks[2]).mean() > 0.99


@given(DTYPES, SHAPES, SEEDS)
def test_normal_is_never_zero(dtype: SourceDtype, shape: tuple[int, int, int], seed: int) -> None:
    """A zero is only where a kind puts one."""
    assert (_draw("normal", dtype, shape, seed=seed) != 0).all()


def test_uniform_offset_and_outlier() -> None:
    """Their ranges; and one element a row that is far larger than the others."""
    uniform = _draw("uniform", "fp32", (20, 8, 128))
    assert -1 <= uniform.min() < -0.99
    assert 0.99 < uniform.max() <= 1
    offset = _draw("offset", "bf16", (20, 8, 128))
    assert offset.min() == 5
    assert offset.max() == 6
    normal, outlier = _draw("normal", "fp32", (8, 3, 64)), _draw("outlier", "fp32", (8, 3, 64))
    assert (outlier > 5).any()
    assert ((np.abs(outlier) > 5).sum(axis=1) <= 1).all()
    assert outlier.std() > 5 * normal.std()


@given(DTYPES, SHAPES, SEEDS)
def test_zero_rows_has_both(dtype: SourceDtype, shape: tuple[int, int, int], seed: int) -> None:
    """At least one row is zero throughout, one is not where there are two, and none is zero in part."""
    zero = _draw("zero_rows", dtype, shape, seed=seed) == 0
    rows = len(zero)
    assert (zero.all(axis=1) == zero.any(axis=1)).all()
    assert zero.all(axis=1).sum() >= min(rows, 1)
    assert (~zero.any(axis=1)).sum() >= min(rows - 1, 1)


def test_zero_rows_are_about_a_third() -> None:
    """Of many rows about a third are zero."""
    assert 0.28 < (_draw("zero_rows", "bf16", (500, 3, 2)) == 0).all(axis=1).mean() < 0.39


@given(st.sampled_from(ANCHORED), DTYPES, SHAPES, SEEDS)
def test_anchored_rows_have_scale_one(kind: str, dtype: SourceDtype, shape: tuple[int, int, int], seed: int) -> None:
    """Every row's largest magnitude is 448, so that amax / 448 is 1; a factor of 2^-3 makes it 2^-3."""
    if shape[0]:
        assert np.abs(_draw(kind, dtype, shape, seed=seed)).max(axis=1).tolist() == [448.0] * (shape[0] * shape[1])
        scaled = np.abs(_draw(f"{kind}*2^-3", dtype, shape, seed=seed)).max(axis=1)
        assert scaled.tolist() == [56.0] * (shape[0] * shape[1])


@pytest.mark.parametrize("kind", ANCHORED)
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_every_entry_of_a_table_is_drawn(kind: str, dtype: SourceDtype) -> None:
    """At the seed's size each entry occurs, and anchors have both signs."""
    drawn = _draw(kind, dtype, (8, 3, 128))
    table = getattr(edge_values, kind)(dtype).astype(np.float32)
    assert set(table.view(np.uint32).tolist()) <= set(drawn.ravel().view(np.uint32).tolist())
    assert {448.0, -448.0} <= set(drawn.ravel().tolist())
    assert len(np.unique(drawn, axis=0)) == 24


def test_grid_has_exact_codes() -> None:
    """Encoding and decoding changes no element of `grid`."""
    drawn = _draw("grid", "bf16", (8, 3, 128))
    np.testing.assert_array_equal(drawn.astype(ml_dtypes.float8_e4m3fn).astype(np.float32), drawn)


def test_overflow_has_no_anchor() -> None:
    """Values above 448 are the point."""
    assert np.abs(_draw("overflow", "fp32", (8, 3, 128))).max() == 1000


@pytest.mark.parametrize("kind", ["nan", "inf"])
@given(dtype=DTYPES, shape=SHAPES, seed=SEEDS)
@settings(max_examples=50)
def test_specials_never_fill_a_row(kind: str, dtype: SourceDtype, shape: tuple[int, int, int], seed: int) -> None:
    """No row is all special, and each sign occurs where there is room for it."""
    drawn = _draw(kind, dtype, shape, seed=seed)
    special = ~np.isfinite(drawn)
    assert not special.all(axis=1).any()
    negative = np.signbit(drawn) & special
    room = len(drawn) * (shape[2] - 1)
    assert (special & ~negative).sum() >= min(room, 1)
    assert negative.sum() >= (room > 1)
    assert not special.any() or (np.isnan if kind == "nan" else np.isinf)(drawn[special]).all()


def test_nans_are_quiet_and_some_rows_have_none() -> None:
    """NaN bits are the quiet ones of both signs, and about half of the rows are free of them."""
    drawn = bits("nan", "bf16", (50, 4, 128), "k", 0)
    values = to_float32(drawn, "bf16")
    assert set(drawn[np.isnan(values)].tolist()) == {0x7FC0, 0xFFC0}
    assert 0.3 < np.isnan(values).any(axis=2).mean() < 0.7


def test_constant_rows_differ() -> None:
    """One value in a row, another in the next."""
    drawn = _draw("constant", "fp32", (8, 3, 16))
    assert (drawn == drawn[:, :1]).all()
    assert len(np.unique(drawn)) == 24


def test_all_zero() -> None:
    """Every bit is zero."""
    assert not bits("all_zero*5", "bf16", (2, 3, 4), "k", 0).any()


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_a_large_factor_stops_at_the_greatest(dtype: SourceDtype) -> None:
    """What the factor drives past the dtype is its greatest finite value; an infinity stays one."""
    drawn = np.abs(_draw("normal*2^200", dtype, (2, 2, 8)))
    assert (drawn == greatest(dtype)).all()
    assert np.isinf(_draw("inf*2^200", dtype, (2, 2, 8))).any()


@pytest.mark.parametrize("kind", [*KINDS, "normal*5", "midpoints*2^-3", "normal*1e4", "normal*0.01"])
def test_kinds_are_accepted(kind: str) -> None:
    """Every kind, with and without a factor."""
    assert check(kind) is None


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("norml", "'norml' is not a kind of values"),
        ("", "'' is not a kind of values"),
        ("normal*", "the factor '' is not a positive decimal"),
        ("normal*-5", "the factor '-5' is not a positive decimal"),
        ("normal*5*5", "the factor '5\\*5' is not a positive decimal"),
        ("normal*2^201", "the factor '2\\^201' is outside"),
        ("normal*2^-201", "the factor '2\\^-201' is outside"),
    ],
)
def test_others_say_why(kind: str, reason: str) -> None:
    """The reason in one line; drawing raises it."""
    assert check(kind) is not None
    with pytest.raises(ValueError, match=reason):
        bits(kind, "bf16", (1, 1, 1), "k", 0)
