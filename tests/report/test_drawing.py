"""Rows read against rows due, in elements."""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.report.drawing import Row, _ticks, caption, drawing, svg
from kvcheck.schema import CaseResult

from .samples import CRASH, PASS, SEED, SIBLING


def case(used: list[int], declared: list[int], tensor: str = "v", **axes: str | int) -> CaseResult:
    """The original fault with these strides and axes."""
    found = msgspec.structs.replace(
        SIBLING, tensor=tensor, evidence={"strides_used": used, "strides_declared": declared}
    )
    return msgspec.structs.replace(SEED, axes=axes, diagnosis=(SEED.diagnosis[1], found))


def test_the_original_fault_is_drawn_where_its_rows_lie() -> None:
    """V is dense, 3072 elements; row t is read at 1152 t: rows 1 and 2 are others' rows, 3 to 7 lie outside."""
    made = drawing(case([1152, 128, 1], [384, 128, 1]))
    assert made is not None
    assert (made.tensor, made.elements, made.tokens, made.shown) == ("v", 3072, 8, 8)
    assert made.due == tuple(Row(t, 384 * t, 384 * t + 384) for t in range(8))
    assert made.read == tuple(Row(t, 1152 * t, 1152 * t + 384) for t in range(8))
    assert (made.wrong, made.outside) == (7, 5)
    assert caption(made) == (
        "V in memory, to scale, in elements: 7 of 8 rows read are not those due, "
        "5 of them not wholly inside V's tensor."
    )


def test_a_view_begins_inside_the_tensor_it_is_a_slice_of() -> None:
    """K in qkv: 384 elements in, rows 1152 apart, in 9216 elements."""
    made = drawing(case([384, 128, 1], [1152, 128, 1], "k", k_view="qkv"))
    assert made is not None
    assert made.elements == 8 * 1152
    assert made.due[1] == Row(1, 384 + 1152, 384 + 1152 + 384)
    assert made.read[1] == Row(1, 384 + 384, 384 + 384 + 384)
    assert made.outside == 0


def test_heads_that_do_not_adjoin_are_drawn_apart() -> None:
    """Heads 144 apart for a head_dim of 128: three rows a token; read as dense, the second head is another place."""
    made = drawing(case([432, 128, 1], [432, 144, 1], v_view="head_padded", tokens=2))
    assert made is not None
    assert [row.start for row in made.due] == [0, 144, 288, 432, 576, 720]
    assert [row.start for row in made.read] == [0, 128, 256, 432, 560, 688]
    assert all(row.stop - row.start == 128 for row in made.read)
    assert made.wrong == 4


def test_an_inner_stride_makes_a_row_longer() -> None:
    """Every second element of 256: a row spans 255 of them; a negative stride begins at its end."""
    made = drawing(case([768, 256, 1], [768, 256, 2], v_view="inner2", tokens=1, heads=1))
    assert made is not None
    assert (made.due[0], made.read[0]) == (Row(0, 0, 255), Row(0, 0, 128))
    back = drawing(case([-768, 256, 1], [768, 256, 2], v_view="inner2", tokens=2, heads=1))
    assert back is not None
    assert (back.read[1].start, back.outside) == (-768, 1)


def test_many_tokens_are_cut_and_it_is_said() -> None:
    """Sixteen of a thousand."""
    made = drawing(case([1152, 128, 1], [384, 128, 1], tokens=1000))
    assert made is not None
    assert (len(made.due), made.tokens) == (16, 1000)
    assert caption(made).endswith(" The first 16 of 1000 tokens.")


@pytest.mark.parametrize(
    "other",
    [
        PASS,
        CRASH,
        SEED,
        case([1], [384, 128, 1]),
        case([1152, 128, 1], [384, 128, 1], "k_codes"),
        case([1152, 128, 1], [384, 128, 1], v_view="spiral"),
        case([1152, 128, 1], [384, 128, 1], tokens=0),
    ],
)
def test_what_cannot_be_drawn_is_not(other: CaseResult) -> None:
    """No diagnosis, no strides, another tensor than K or V, a view not known here, no row."""
    assert drawing(other) is None


@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 5000), st.integers(-5000, 5000), st.integers(0, 300))
def test_every_drawing_stays_inside_its_frame(tokens: int, heads: int, declared: int, used: int, head: int) -> None:
    """Whatever the strides: every place is a number between the drawing's edges, and there are ticks."""
    made = drawing(case([used, head, 1], [declared, 128, 1], tokens=tokens, heads=heads))
    assert made is not None
    picture = svg(made)
    assert "nan" not in picture
    assert "inf" not in picture
    places = [float(number) for number in re.findall(r"[ML](-?[\d.]+) ", picture)]
    places += [float(number) for number in re.findall(r' x="(-?[\d.]+)"', picture)]
    assert min(places) >= 0
    assert max(places) <= 1000
    assert picture.count('class="tick"') >= 1


@given(st.integers(-(10**9), 0), st.integers(1, 10**12))
def test_ticks_are_round_and_few(low: int, length: int) -> None:
    """At most ten, all between the ends, an equal step of 1, 2 or 5 times a power of ten."""
    ticks = _ticks(low, low + length)
    assert len(ticks) <= 11
    assert all(low <= tick <= low + length for tick in ticks)
    steps = {after - before for before, after in pairwise(ticks)}
    assert len(steps) <= 1
    assert all(re.fullmatch("[125]0*", str(step)) for step in steps)
