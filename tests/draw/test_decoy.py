"""What stands in memory while a graph is captured: nothing of it is the case's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.contract import Computed, Contract, Given
from kvcheck.draw import slots
from kvcheck.draw.decoy import decoy
from kvcheck.draw.inputs import logical
from kvcheck.schema import Case

COMPUTED = Contract(scale=Computed("token_head"))


@given(
    kind=st.sampled_from(slots.ACCEPTED.split(", ")),
    tokens=st.integers(0, 40),
    page=st.sampled_from([1, 4, 16]),
    seed=st.integers(0, 1 << 62),
)
def test_slots_are_others_that_are_shared_and_skipped_alike(kind: str, tokens: int, page: int, seed: int) -> None:
    """None that the case addresses; two tokens share one where they share the case's; -1 stays -1."""
    case = Case(tokens=tokens, heads=1, head_dim=2, slots=kind, seed=seed)
    count = slots.slot_count(tokens, page)
    own, other = (make(case, COMPUTED, count, page).slots for make in (logical, decoy))
    assert ((own < 0) == (other < 0)).all()
    assert not set(own[own >= 0].tolist()) & set(other.tolist())
    assert ((own[:, None] == own) == (other[:, None] == other)).all()
    assert (other < count).all()


@pytest.mark.parametrize("values", ["normal", "zero_rows", "nan", "grid", "traps"])
@pytest.mark.parametrize("view", ["dense", "expanded"])
def test_rows_are_others_of_the_same_shape(values: str, view: str) -> None:
    """In every row of K and of V, also where rows repeat, which they still do."""
    case = Case(tokens=5, extra_tokens=2, heads=2, head_dim=16, head_dim_v=8, k_values=values, v_values=values,
                k_view=view, v_view=view, dtype="fp16")  # fmt: skip
    own, other = (make(case, COMPUTED, 32, 1) for make in (logical, decoy))
    for mine, theirs in ((own.k, other.k), (own.v, other.v)):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        assert (mine != theirs).any(axis=2).all()
        assert (theirs == theirs[:1]).all() == (view == "expanded")
    assert np.isfinite(other.k_float).all()
    assert (other.k_float[:, :, :8] != other.v_float).any()


def test_given_scales_are_larger_by_a_power_of_two() -> None:
    """Each its own; none where none is given."""
    case = Case(tokens=2, heads=3, k_scale="0.0123", v_scale="2^-3")
    contract = Contract(scale=Given("head"), apply="divide")
    own, other = (make(case, contract, 32, 1) for make in (logical, decoy))
    assert other.k_scale is not None
    assert other.v_scale is not None
    assert own.k_scale is not None
    assert own.v_scale is not None
    np.testing.assert_array_equal(other.k_scale, own.k_scale * np.float32(32))
    np.testing.assert_array_equal(other.v_scale, own.v_scale * np.float32(32))
    assert decoy(case, COMPUTED, 32, 1).k_scale is None


def test_the_arrays_cannot_be_written() -> None:
    """They are kept, and handed to all who ask."""
    drawn = decoy(Case(tokens=2, heads=1, head_dim=4), Contract(scale=Given("tensor")), 32, 1)
    for array in (drawn.k, drawn.v, drawn.k_float, drawn.v_float, drawn.slots, drawn.k_scale, drawn.v_scale):
        assert array is not None
        assert not array.flags.writeable
