"""What a case would have shown: a form of a fault is shown where a kernel that has it fails, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judge import emulate as emulation
from judge.emulate import COMPUTED, Kernel, Memory, amax_scale, e4m3, emulate, store

from kvcheck.diagnose import observable, shown
from kvcheck.diagnose.diagnose import ruled_out
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.prospect import fails_reading
from kvcheck.judge import judge
from kvcheck.memory.place import place
from kvcheck.schema import Case, Emission

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.uint8]

SMALL = Case(tokens=3, heads=2, head_dim=16)
SHARED = msgspec.structs.replace(SMALL, tokens=4, slots="duplicates")


def forms(emission: Emission, fault: str) -> Mapping[str, bool]:
    """What the case would have shown of a fault."""
    return shown(emission, judge(emission))[fault]


def fails(kernel: Kernel, case: Case) -> bool:
    """Whether the judge condemns what a kernel leaves."""
    return judge(emulate(kernel, case)).outcome != "pass"


def encoding(encode: Callable[[Floats], Codes]) -> Kernel:
    """A store, right but for its encoder. Of tokens that share a slot the last one stands."""

    def kernel(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = amax_scale(x)
            with np.errstate(invalid="ignore", divide="ignore"):
                codes = encode(x / scale[:, :, None])
            for token, slot in enumerate(memory.slots.tolist()):
                if slot >= 0:
                    memory.write(f"{tensor}_codes", slot, codes[token])
                    memory.write(f"{tensor}_scales", slot, scale[token])

    return kernel


def flushed(scaled: Floats) -> Codes:
    """Subnormal codes as zeros of their sign."""
    codes = e4m3(scaled)
    return np.where(codes & 0x78, codes, codes & 0x80)


def wide(memory: Memory) -> None:
    """A store whose amax has one element too many, the one behind the last head."""
    for tensor in ("k", "v"):
        placed, x = memory.placement.get(tensor), memory.read(tensor)
        more = msgspec.structs.replace(placed, dims=(*placed.dims[:2], placed.dims[2] + 1))
        size = np.abs(np.nan_to_num(Memory.read(_As(memory, tensor, more), tensor)[:, -1, -1], nan=0))
        scale = amax_scale(x)
        scale[:, -1] = np.maximum(scale[:, -1], size / np.float32(448))
        codes = e4m3(x / scale[:, :, None])
        for token, slot in enumerate(memory.slots.tolist()):
            memory.write(f"{tensor}_codes", slot, codes[token])
            memory.write(f"{tensor}_scales", slot, scale[token])


class _As(Memory):
    """Memory in which one tensor is placed otherwise."""

    def __init__(self, memory: Memory, tensor: str, placed: object) -> None:
        """`placed` is where `tensor` is taken to lie."""
        tensors = tuple(placed if each.name == tensor else each for each in memory.placement.tensors)
        super().__init__(memory.arrays, msgspec.structs.replace(memory.placement, tensors=tensors), memory.launch)


@settings(max_examples=40, deadline=None)
@given(
    k_values=st.sampled_from(["normal", "constant", "subnormal_codes", "zero_rows", "negative_zero"]),
    v_values=st.sampled_from(["normal", "constant", "grid"]),
    slots=st.sampled_from(["ascending", "duplicates", "negative_mixed", "all_negative"]),
    tokens=st.integers(0, 5),
    seed=st.integers(0, 3),
)
def test_an_encoder_is_shown_where_the_row_that_stands_is_wrong(
    k_values: str, v_values: str, slots: str, tokens: int, seed: int
) -> None:
    """Of tokens that share a slot the last one's codes stand, and they may be the right ones of another."""
    case = Case(
        k_values=k_values, v_values=v_values, slots=slots, tokens=tokens, heads=2, head_dim=16, seed=seed, dtype="fp16"
    )
    assert forms(emulate(store, case), "subnormal-flush") == {"": fails(encoding(flushed), case)}


def test_a_row_of_another_token_is_right_in_the_slot_that_they_share() -> None:
    """A kernel that stores another's row there passes; alone in its slot it would not."""
    emission = emulate(store, SHARED)
    facts = Facts(emission, COMPUTED, judge(emission)).standing()
    slots = facts.slots.tolist()
    assert facts.tokens.tolist() == sorted({slot: token for token, slot in enumerate(slots)}.values())
    assert len(facts.tokens) < len(facts.stored_tokens)
    first = {slot: token for token, slot in reversed(list(enumerate(slots)))}
    x = facts.values("k", np.array([first[slots[token]] for token in facts.tokens.tolist()]))
    assert not fails_reading(facts, "k", x)
    assert fails_reading(facts, "k", x[::-1])


@pytest.mark.parametrize("cross", ["none", "k", "v"])
def test_the_sibling_behind_a_row_shows_where_it_is_redrawn(monkeypatch: pytest.MonkeyPatch, cross: str) -> None:
    """K lies right behind V. Its first value is no larger than V's amax, and is where other values are drawn for it."""
    monkeypatch.setattr(emulation, "place", lambda *args, cuda: place(*args, cuda=cuda and False))
    case = Case(
        k_view="transposed", v_view="kv", k_values="negative_zero", v_values="normal*2^-20", tokens=1, heads=6,
        head_dim=192, slots="page_edges", layout="pooled", order="vk", cross=cross,
    )  # fmt: skip
    assert fails(wide, case) == (cross == "k")
    assert forms(emulate(store, case), "foreign-read")["an amax over one element more"] == (cross == "k")


@pytest.mark.parametrize(("view", "values"), [("dense", "normal"), ("head_padded", "normal"), ("dense", "outlier")])
def test_what_lies_behind_a_row_shows_where_it_is_larger(view: str, values: str) -> None:
    """Poison is; other values of the row before are not always."""
    case = msgspec.structs.replace(SMALL, k_view=view, k_values=values, v_values=values)
    found = forms(emulate(store, case), "foreign-read")["an amax over one element more"]
    assert found == fails(wide, case)


def running(memory: Memory) -> None:
    """A store whose scale never falls below the one that stands there, of the last of the tokens that share a slot."""
    last = {slot: token for token, slot in enumerate(memory.slots.tolist()) if slot >= 0}
    for tensor in ("k", "v"):
        x = memory.read(tensor)
        scale = amax_scale(x)
        for slot, token in last.items():
            before = memory.row(f"{tensor}_scales", slot).view(np.float32)
            with np.errstate(invalid="ignore"):
                scale[token] = np.where(before > scale[token], before, scale[token])
        with np.errstate(all="ignore"):
            codes = e4m3(x / scale[:, :, None])
        for slot, token in last.items():
            memory.write(f"{tensor}_codes", slot, codes[token])
            memory.write(f"{tensor}_scales", slot, scale[token])


@settings(max_examples=60, deadline=None)
@given(
    k_values=st.sampled_from(["normal", "normal*1e4", "all_zero", "nan"]),
    v_values=st.sampled_from(["normal", "inf"]),
    slots=st.sampled_from(["ascending", "duplicates", "all_negative"]),
    tokens=st.integers(0, 3),
    seed=st.integers(0, 20),
)
def test_a_scale_that_stood_there_shows_in_slots_that_tokens_share_too(
    k_values: str, v_values: str, slots: str, tokens: int, seed: int
) -> None:
    """One number stands there in each launch, and no token of the slot has it for its scale."""
    case = Case(k_values=k_values, v_values=v_values, slots=slots, tokens=tokens, heads=1, head_dim=4, seed=seed)
    assert forms(emulate(store, case), "uninitialised-read") == {"": fails(running, case)}


def test_all_forms_of_a_fault_must_show_for_a_pass_to_rule_it_out() -> None:
    """One that hides is enough to say nothing; one that the contract does not admit is not asked."""
    assert ruled_out({"a": {"x": True, "y": False}, "b": {"x": True, "y": True}, "c": {}}) == ("b",)
    odd = emulate(store, msgspec.structs.replace(SMALL, k_cache="padded"))
    assert forms(odd, "token-lost") == {"two tokens at a time": True, "into a contiguous copy of the cache": True}
    dense = emulate(store, SMALL)
    assert forms(dense, "token-lost") == {"two tokens at a time": True, "into a contiguous copy of the cache": False}
    assert "token-lost" in observable(odd, judge(odd))
    assert "token-lost" not in observable(dense, judge(dense))


@pytest.mark.parametrize("cache", ["dense", "padded", "head_padded"])
@pytest.mark.parametrize("heads", [1, 2])
def test_a_copy_of_the_cache_loses_rows_where_it_is_not_contiguous(cache: str, heads: int) -> None:
    """A stride that no element is reached by does not make a copy."""
    case = msgspec.structs.replace(SMALL, heads=heads, k_cache=cache, v_cache="dense")
    padded = cache != "dense"
    assert forms(emulate(store, case), "token-lost")["into a contiguous copy of the cache"] == padded


def test_a_case_that_stores_nothing_may_still_show_a_row_too_many() -> None:
    """Every slot is negative: nothing is compared, but a kernel that counts from the end writes where none is due."""
    emission = emulate(store, msgspec.structs.replace(SMALL, slots="all_negative"))
    verdict = judge(emission)
    assert (verdict.outcome, verdict.codes.compared) == ("pass", 0)
    assert observable(emission, verdict) == ("negative-slot",)


@pytest.mark.parametrize(("values", "seen"), [("normal", True), ("grid", False), ("constant", False)])
def test_chance_shows_where_so_many_values_lie_between_codes_that_some_go_wrong(values: str, seen: bool) -> None:
    """Codes that are exact are so by any rounding."""
    case = msgspec.structs.replace(SMALL, k_values=values, v_values=values)
    assert forms(emulate(store, case), "nondeterministic") == {"": seen}


def test_one_value_between_codes_may_go_right_by_chance() -> None:
    """A single element that is rounded is no promise that a kernel that rounds by chance fails."""
    case = Case(tokens=1, heads=1, head_dim=2, k_values="normal", v_values="grid")
    assert forms(emulate(store, case), "nondeterministic") == {"": False}


def test_a_verdict_that_is_none_rules_nothing_out() -> None:
    """What was not judged shows nothing."""
    emission = emulate(store, SMALL)
    verdict = msgspec.structs.replace(judge(emission), outcome="inconclusive")
    assert shown(emission, verdict) == {}
    assert observable(emission, verdict) == ()
