"""Fences: a kernel that reads beyond one fails whatever it would have stored; what stays before it is seen by bytes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judge.emulate import COMPUTED, emulate, given_store, store

from kvcheck.contract import Contract, Given
from kvcheck.diagnose import foreseen, shown
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.reach import stopped
from kvcheck.judge import judge
from kvcheck.schema import Case, Emission

#: Rows of zeros, beside which zeros from anywhere change nothing: what shows of a wrong address is the fence alone.
ZEROS = Case(tokens=3, heads=2, head_dim=16, k_values="all_zero", v_values="all_zero", layout="fence")
PAGE = 4096


def fenced(emission: Emission) -> Emission:
    """The emission with nothing mapped at the fenced side of its allocations, nor a page from their other side."""
    begins = zip(emission.addresses, emission.placement.allocations, strict=True)
    after, before = (0, PAGE) if emission.case.layout == "fence-before" else (PAGE, 0)
    return msgspec.structs.replace(emission, mapped=tuple((at - after, at + size + before) for at, size in begins))


def forms(emission: Emission, fault: str) -> Mapping[str, bool]:
    """What the case would have shown of a fault."""
    return shown(emission, judge(emission))[fault]


@pytest.mark.parametrize(
    ("places", "item", "meets"),
    [
        ([0, 8], 2, False),
        ([9], 2, True),
        ([-1], 1, True),
        ([20, 28], 2, False),
        ([8, 12], 2, True),
        ([29], 1, False),
        ([30], 1, True),
        ([], 4, False),
    ],
)
def test_every_byte_of_an_element_must_be_mapped(places: list[int], item: int, meets: bool) -> None:
    """Bytes 0 to 10 and 20 to 30 are: an element that reaches over an edge is beyond it."""
    emission = msgspec.structs.replace(emulate(store, ZEROS), mapped=((20, 30), (0, 10)))
    facts = Facts(emission, COMPUTED, judge(emission))
    assert stopped(facts, np.array(places, np.int64), item) == meets


def test_without_fences_nothing_is_known_to_stop_a_kernel() -> None:
    """Whatever lies there, zeros in place of zeros do not show."""
    emission = emulate(store, msgspec.structs.replace(ZEROS, layout="exact"))
    assert not stopped(Facts(emission, COMPUTED, judge(emission)), np.array([1 << 50]), 2)


@pytest.mark.parametrize("layout", ["fence", "fence-before"])
def test_a_pitch_that_leads_beyond_a_fence_shows(layout: str) -> None:
    """V's rows by K's pitch leave V at its end; at its beginning they never do, and zeros are read for zeros."""
    emission = emulate(store, msgspec.structs.replace(ZEROS, k_view="qkv", layout=layout))
    form = "V by K's token pitch"
    assert not forms(emission, "sibling-pitch")[form]
    assert forms(fenced(emission), "sibling-pitch")[form] == (layout == "fence")


@pytest.mark.parametrize("align", [2, 16])
def test_an_element_behind_the_last_head_shows_where_nothing_is_mapped_there(align: int) -> None:
    """An address that is a multiple of 16 leaves four bytes between 46 bf16 elements and the fence, of like values."""
    case = msgspec.structs.replace(
        ZEROS, tokens=1, heads=1, head_dim=46, align=align, k_values="outlier", v_values="outlier"
    )
    emission = emulate(store, case)
    form = "an amax over one element more"
    assert not forms(emission, "foreign-read")[form]
    assert forms(fenced(emission), "foreign-read")[form] == (align == 2)


def test_offsets_that_wrap_lead_before_a_tensor_and_show_at_its_fence() -> None:
    """From element 32768 on a signed 16-bit offset is negative: 64 KiB, far from other tensors."""
    for layout in ("fence", "fence-before"):
        case = msgspec.structs.replace(ZEROS, tokens=9, heads=8, head_dim=576, layout=layout)
        emission = emulate(store, case)
        apart = tuple(index << 24 for index in range(len(emission.addresses)))
        emission = msgspec.structs.replace(emission, addresses=apart)
        form = "source rows in signed 16 bits"
        assert not forms(emission, "index-wrap")[form]
        assert forms(fenced(emission), "index-wrap")[form]


def test_what_is_masked_away_meets_no_fence() -> None:
    """Elements that are not read at all are zeros: 12 elements of which 8 are read."""
    case = msgspec.structs.replace(ZEROS, head_dim=12)
    emission = fenced(emulate(store, case))
    assert forms(emission, "tail-mask")["read up to a power of two"] is False
    other = fenced(emulate(store, msgspec.structs.replace(case, k_values="normal")))
    assert forms(other, "tail-mask")["read up to a power of two"] is True


@settings(max_examples=30, deadline=None)
@given(
    layout=st.sampled_from(["arena", "fence", "fence-before"]),
    views=st.tuples(*[st.sampled_from(["dense", "qkv", "inner2", "head_padded", "offset17"])] * 2),
    slots=st.sampled_from(["ascending", "duplicates", "negative_mixed", "all_negative"]),
    cache=st.sampled_from(["dense", "head_padded"]),
    tokens=st.integers(0, 5),
    cross=st.sampled_from(["none", "k"]),
    computed=st.booleans(),
)
def test_what_shows_needs_no_launch(
    layout: str, views: tuple[str, str], slots: str, cache: str, tokens: int, cross: str, computed: bool
) -> None:
    """What a case would have shown hangs on what its kernel was given: of one that a fence stops it is known too."""
    case = Case(
        k_view=views[0], v_view=views[1], slots=slots, k_cache=cache, tokens=tokens, cross=cross, layout=layout,
        heads=2, head_dim=16,
    )  # fmt: skip
    if computed:
        emission = emulate(store, case)
    else:
        contract = Contract(scale=Given("tensor"), apply="divide")
        emission = emulate(given_store(0.125, 0.125), case, contract)
    emission = emission if layout == "arena" else fenced(emission)
    verdict = judge(emission)
    assert verdict.outcome in ("pass", "mismatch")
    assert foreseen(msgspec.structs.replace(emission, launches=())) == shown(emission, verdict)
