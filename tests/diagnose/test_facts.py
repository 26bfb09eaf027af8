"""What is known of a case once: its rows, the tokens that share slots, and memory before each launch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge.emulate import COMPUTED, Kernel, Memory, amax_scale, e4m3, emulate, store

from diagnose.faulty import Store, emitted, strides
from kvcheck.contract import Computed, Contract, Given
from kvcheck.diagnose.diagnose import diagnose, examine, shown
from kvcheck.diagnose.facts import TENSORS, Facts
from kvcheck.diagnose.image import SourceMemory
from kvcheck.diagnose.taken import FIRST, Stored, Taken
from kvcheck.judge import judge
from kvcheck.schema import Case

CONTRACTS = (
    COMPUTED,
    Contract(scale=Computed("token", derive="divide_approx"), apply="divide_approx", nan="undefined"),
    Contract(scale=Computed("block:8")),
    Contract(scale=Given("head")),
    Contract(scale=None),
)


def facts_of(case: Case, kernel: Kernel = store) -> Facts:
    """Those of a right kernel."""
    emission = emulate(kernel, case)
    assert isinstance(emission.contract, Contract)
    return Facts(emission, emission.contract, judge(emission))


def taken(contract: Contract, x: np.typing.NDArray[np.float32]) -> Taken:
    """Rows, of which scales are kept where they are computed."""
    given = np.array([0.5, 2.0], np.float32) if isinstance(contract.scale, Given) else None
    return Taken(contract, x, given, keeps=isinstance(contract.scale, Computed))


@pytest.mark.parametrize("contract", CONTRACTS, ids=str)
@given(st.integers(0, 2**32 - 1), st.integers(0, 11), st.booleans())
def test_rows_that_fit_are_among_those_that_may(contract: Contract, seed: int, dim: int, other: bool) -> None:
    """The cheap look leaves no row out that the full one keeps, and leaves out what differs in its first codes."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(3, 2, 24)).astype(np.float32)
    rows = taken(contract, x)
    codes = rows.stored.codes.copy()
    codes[1, 1, dim] ^= 0x40
    scale = rows.stored.scale
    held = Stored(codes, None if scale is None else scale * np.float32(2 if other else 1))
    found = rows.agreement(held)
    fits = found.codes.all(axis=2)
    if found.scales is not None:
        fits = fits & np.broadcast_to(found.scales.all(axis=2) if found.scales.ndim == 3 else found.scales, fits.shape)
    assert not (fits & ~rows.may_fit(held)).any()
    assert rows.may_fit(held)[1, 1] == (dim >= FIRST and (scale is None or not other))


@pytest.mark.parametrize("contract", CONTRACTS, ids=str)
def test_what_a_right_kernel_stores_is_scaled_as_its_equal_is(contract: Contract) -> None:
    """What is kept of the one is what is computed of the other; of another scale it is neither."""
    x = np.random.default_rng(3).normal(size=(3, 2, 24)).astype(np.float32)
    x[1, 0, 5], x[2] = np.nan, 0
    rows = taken(contract, x)
    kept = rows.scaled(rows.stored)
    scale = rows.stored.scale
    copied = Stored(rows.stored.codes, None if scale is None else scale.copy())
    equal, agreed, found = rows.scaled(copied), rows.agreement(copied), rows.agreement(rows.stored)
    assert found.codes.tobytes() == agreed.codes.tobytes()
    assert (found.scales is None) == (agreed.scales is None)
    if found.scales is not None and agreed.scales is not None:
        assert found.scales.all()
        assert found.scales.tolist() == agreed.scales.tolist()
    assert [each.tobytes() for each in kept] == [each.tobytes() for each in equal]
    assert rows.scaled(rows.stored)[0] is kept[0]
    if scale is not None:
        assert not rows.scaled(Stored(rows.stored.codes, scale + np.float32(2)))[1].any()


@given(st.sampled_from(["duplicates", "permuted", "negative_mixed"]), st.integers(0, 9), st.integers(0, 3))
def test_tokens_that_share_a_slot_are_paired(slots: str, tokens: int, seed: int) -> None:
    """Both ways round, and no token with itself."""
    facts = facts_of(Case(tokens=tokens, heads=1, head_dim=16, slots=slots, seed=seed))
    equal = facts.slots[:, None] == facts.slots[None, :]
    np.fill_diagonal(equal, val=False)
    one, other = facts.sharing
    assert sorted(zip(one.tolist(), other.tolist(), strict=True)) == [*map(tuple, np.argwhere(equal).tolist())]


def test_several_tokens_may_share_one_slot() -> None:
    """Every two of them are a pair."""
    facts = facts_of(Case(tokens=3, heads=1, head_dim=16))
    facts.slots = np.array([4, 7, 4, 4, 7])
    one, other = facts.sharing
    pairs = [(0, 2), (0, 3), (1, 4), (2, 0), (2, 3), (3, 0), (3, 2), (4, 1)]
    assert sorted(zip(one.tolist(), other.tolist(), strict=True)) == pairs


def test_memory_is_that_before_each_launch() -> None:
    """Prefill and poison are the launch's own; the rows of K and V are the same."""
    facts = facts_of(Case(tokens=3, heads=2, head_dim=16))
    placed = facts.emission.placement.get("k")
    for each, (prefill, poison) in zip(facts.launches("k"), [("A", "A"), ("B", "B"), ("C", "A")], strict=True):
        due = SourceMemory.of(facts.emission, prefill, poison)  # type: ignore[arg-type]
        for (begin, data), (same, right) in zip(each.memory.pieces(), due.pieces(), strict=True):
            assert begin == same
            assert np.array_equal(data, right)
        assert np.array_equal(each.read(placed), facts.read(placed))
        assert np.array_equal(each.values("v"), facts.values("v"))


def first_stays(memory: Memory) -> None:
    """A right store, of which the first token of a slot is the last to write."""
    for tensor in TENSORS:
        x = memory.read(tensor)
        scale = amax_scale(x)
        codes = e4m3(x / scale[:, :, None])
        for token in reversed(range(len(memory.slots))):
            memory.write(f"{tensor}_codes", int(memory.slots[token]), codes[token])
            memory.write(f"{tensor}_scales", int(memory.slots[token]), scale[token])


def test_what_stands_in_the_end_is_the_last_row_of_a_slot() -> None:
    """Whichever row the kernel left, and though what that one is was asked for before."""
    facts = facts_of(Case(tokens=8, heads=1, head_dim=16, slots="duplicates"), first_stays)
    assert facts.all_right("k")
    standing = facts.standing()
    assert len(np.unique(facts.slots)) == len(standing.tokens) == len(facts.tokens) < len(facts.slots)
    for slot in np.unique(facts.slots):
        sharers = facts.stored_tokens[facts.slots == slot]
        assert sharers.min() in facts.tokens
        assert sharers.max() in standing.tokens
    assert np.array_equal(facts.stored_tokens[facts.compared], facts.tokens)
    assert np.array_equal(standing.stored_tokens[standing.compared], standing.tokens)
    assert np.array_equal(standing.slots[standing.compared][standing.row_of], facts.slots)
    assert np.array_equal(standing.values("k"), facts.values("k", standing.tokens))
    assert not standing.all_right("k")


def test_what_stands_in_each_slot_is_given_to_all_its_tokens() -> None:
    """Emitted bytes and right rows of all stored tokens, where some share a slot."""
    facts = facts_of(Case(tokens=8, heads=1, head_dim=16, slots="duplicates"), first_stays)
    assert np.array_equal(facts.emitted_stored("k").codes, facts.emitted("k").codes[facts.row_of])
    assert np.array_equal(facts.own_stored("v").x, facts.values("v", facts.stored_tokens))
    assert np.array_equal(facts.own("v").x, facts.values("v", facts.tokens))


def test_rows_from_elsewhere_leave_the_others_as_they_are() -> None:
    """What was found of the tensor before is not taken for theirs."""
    facts = facts_of(Case(tokens=3, heads=2, head_dim=16))
    assert facts.all_right("k")
    assert facts.all_right("v")
    moved = facts.with_values("k", facts.values("k")[::-1])
    assert not moved.all_right("k")
    assert moved.all_right("v")
    assert moved.own("v") is facts.own("v")
    assert facts.all_right("k")


@pytest.mark.parametrize("case", [Case(tokens=3, heads=2, head_dim=16), Case(tokens=2, heads=1, head_dim=48)])
def test_both_answers_are_those_given_alone(case: Case) -> None:
    """A diagnosis, and which faults the case could have shown."""
    emission = emitted(Store(codes=strides(1024)), case)
    verdict = judge(emission)
    assert diagnose(emission, verdict)
    assert examine(emission, verdict) == (diagnose(emission, verdict), shown(emission, verdict))


def test_a_right_case_has_no_diagnosis() -> None:
    """Though what it could have shown is said."""
    emission = emulate(store, Case(tokens=3, heads=2, head_dim=16))
    found, forms = examine(emission, judge(emission))
    assert found == ()
    assert any(any(each.values()) for each in forms.values())


def test_nothing_stored_shares_nothing() -> None:
    """Of no token, and of one."""

    def nothing(memory: Memory) -> None:
        del memory

    for tokens in (0, 1):
        emission = emulate(nothing, Case(tokens=tokens, heads=1, head_dim=16))
        assert isinstance(emission.contract, Contract)
        one, other = Facts(emission, emission.contract, judge(emission)).sharing
        assert len(one) == len(other) == 0
