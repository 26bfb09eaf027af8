"""Logical inputs: rows beyond the slots change nothing of the others."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.contract import Computed, Contract
from kvcheck.draw.inputs import logical
from kvcheck.schema import Case

COMPUTED = Contract(scale=Computed("token_head"))
TOKENS = st.integers(0, 4)


@given(TOKENS, TOKENS, st.sampled_from(["normal", "nan", "grid", "zero_rows"]), st.sampled_from(["bf16", "fp32"]))
def test_extra_rows_come_behind_those_of_the_slots(tokens: int, extra: int, kind: str, dtype: str) -> None:
    """K and V have them, the slots do not; the rows that are stored are those of the case without them."""
    case = Case(tokens=tokens, heads=2, head_dim=8, k_values=kind, dtype="fp32" if dtype == "fp32" else "bf16")
    plain = logical(case, COMPUTED, 32, 1)
    padded = logical(msgspec.structs.replace(case, extra_tokens=extra), COMPUTED, 32, 1)
    for few, more in ((plain.k, padded.k), (plain.v, padded.v)):
        assert more.shape == (tokens + extra, 2, 8)
        assert more[:tokens].tobytes() == few.tobytes()
    assert padded.slots.tolist() == plain.slots.tolist()
    assert padded.k_float.shape == padded.k.shape


def test_extra_rows_are_not_the_others_again() -> None:
    """As many extra rows as tokens are other rows, K's and V's unlike, and other ones when one is redrawn."""
    case = Case(tokens=3, extra_tokens=3)
    drawn, redrawn = logical(case, COMPUTED, 32, 1), logical(case, COMPUTED, 32, 1, "k")
    rows = [*drawn.k[:3], *drawn.k[3:], *drawn.v[:3], *drawn.v[3:], *redrawn.k[:3], *redrawn.k[3:]]
    assert len({row.tobytes() for row in rows}) == len(rows)
    assert redrawn.v.tobytes() == drawn.v.tobytes()


@pytest.mark.parametrize("tokens", [0, 2])
def test_a_repeated_row_is_repeated_beyond_the_slots(tokens: int) -> None:
    """An expanded view shows one row only, extra rows included, and also where there are no other rows."""
    k = logical(Case(tokens=tokens, extra_tokens=2, k_view="expanded"), COMPUTED, 32, 1).k
    assert k.shape[0] == tokens + 2
    assert np.array_equal(k, np.broadcast_to(k[:1], k.shape))
