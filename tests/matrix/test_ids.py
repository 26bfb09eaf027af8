"""Ids: pinned, and made of what differs from the defaults."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.matrix.ids import axes_of, case_id
from kvcheck.schema import Case

CASES = st.builds(
    Case,
    k_view=st.sampled_from(["dense", "qkv"]),
    v_view=st.sampled_from(["dense", "qkv"]),
    tokens=st.integers(0, 3),
    head_dim=st.sampled_from([64, 128]),
    head_dim_v=st.sampled_from([None, 64, 128]),
    form=st.sampled_from([None, "pages"]),
    seed=st.integers(0, 2),
)


@pytest.mark.parametrize(
    ("case", "name"),
    [
        (Case(), "c4a5bc9031"),
        (Case(seed=1), "a14ef45bfe"),
        (Case(k_view="qkv", k_values="normal*5", v_values="normal*0.01", layout="pooled"), "bf11ca0347"),
        (Case(head_dim=64), "652ccb93d7"),
        (Case(head_dim=64, head_dim_v=64), "652ccb93d7"),
        (Case(page=16, form="pages"), "516e90b8bd"),
    ],
)
def test_ids_are_pinned(case: Case, name: str) -> None:
    """The ids that reports hold stay as they are; a change here breaks every baseline."""
    assert case_id(case) == name


@given(CASES, CASES)
def test_equal_ids_mean_equal_cases(one: Case, other: Case) -> None:
    """Two cases share an id exactly if no axis differs, V's head_dim counted as what it is."""
    same = {**axes_of(one), "head_dim_v": one.dim_v} == {**axes_of(other), "head_dim_v": other.dim_v}
    assert (case_id(one) == case_id(other)) == same


def test_axes_are_those_with_a_value() -> None:
    """Defaults are listed too; what the target or K decides is not."""
    axes = axes_of(Case(page=16))
    assert list(axes)[:3] == ["k_view", "v_view", "k_values"]
    assert axes["page"] == 16
    assert axes["seed"] == 0
    assert "form" not in axes
    assert "head_dim_v" not in axes
