"""Faults of writes that are no wrong map: rows that were not to be stored, strays, inputs, runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from judge.emulate import Memory, amax_scale, e4m3, emulate, store

from kvcheck.contract import Computed, Contract, Form, Given
from kvcheck.diagnose import diagnose
from kvcheck.judge import judge
from kvcheck.schema import Case

from .faulty import Store, emitted, put, said, seen

SMALL = Case(heads=3, head_dim=64)


def rowwise(change: Callable[[Memory, str, int, int], None]) -> Callable[[Memory], None]:
    """A right store, then something done for every tensor, token and slot."""

    def kernel(memory: Memory) -> None:
        store(memory)
        for tensor in ("k", "v"):
            for token, slot in enumerate(memory.slots.tolist()):
                change(memory, tensor, token, slot)

    return kernel


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (lambda slot, page, last: divmod(last, page), "at the last slot, "),  # noqa: ARG005
        (lambda slot, page, last: (0, 0), "at slot 0"),  # noqa: ARG005
        (lambda slot, page, last: (0, -1), "at the row before the first"),  # noqa: ARG005
        (lambda slot, page, last: divmod(1, page), "at slot 1"),  # noqa: ARG005
    ],
)
def test_rows_of_negative_slots_are_found(place: Callable[[int, int, int], tuple[int, int]], words: str) -> None:
    """Wherever a kernel puts them: at the cache's end, its begin, before it."""

    def kernel(memory: Memory) -> None:
        last = memory.placement.slots - 1
        Store(
            code_slot=lambda slot, page: divmod(slot, page) if slot >= 0 else place(slot, page, last),
        )(memory)

    found = said(emitted(kernel, Case(heads=3, head_dim=64, slots="negative_mixed", tokens=3), Form("pages", page=4)))
    assert {each.fault for each in found} == {"negative-slot"}
    assert words in found[0].says
    assert sum(each.others for each in found) == found[0].of_others
    # No other row is due there: nobody read it.
    assert {each.cost for each in found} == {1}


@pytest.mark.parametrize("contract", [Contract(scale=Computed("token_head")), Contract(scale=Given("tensor"))])
def test_a_negative_tokens_row_in_anothers_slot_may_have_been_read_there(contract: Contract) -> None:
    """Token 1 has the row of token 2, whose slot is negative, in its own slot: it was read from there."""
    given = isinstance(contract.scale, Given)

    def kernel(memory: Memory) -> None:
        for tensor, scale in (("k", 0.125), ("v", 0.0625)):
            x = memory.read(tensor)
            taken = x[np.minimum(np.arange(len(x)) * 2, len(x) - 1)]
            scales = np.full(taken.shape[:2], scale, np.float32) if given else amax_scale(taken)
            codes = e4m3(np.asarray(taken / scales[:, :, None], np.float32))
            for token, slot in enumerate(memory.slots.tolist()):
                if slot >= 0:
                    memory.write(f"{tensor}_codes", slot, codes[token])
                    if not given:
                        memory.write(f"{tensor}_scales", slot, scales[token])

    case = Case(heads=3, head_dim=64, slots="negative_mixed", tokens=3)
    emission = emulate(kernel, case, contract, Form(scales="none" if given else "sidecar"))
    made = diagnose(emission, judge(emission))
    assert {each.fault for each in made} == {"foreign-read"}, [each.says for each in made]


def test_rows_beyond_the_slots_are_stray() -> None:
    """A kernel that takes as many tokens as K has rows stores the padding too."""

    def kernel(memory: Memory) -> None:
        store_rows(memory, [*memory.slots.tolist(), 1])

    found = said(emitted(kernel, Case(heads=3, head_dim=64, tokens=3, extra_tokens=1)))
    assert {each.fault for each in found} == {"stray-write"}
    assert found[0].says == "K's rows with no slot, beyond the last token (token 3) are stored, at slot 1"


def store_rows(memory: Memory, slots: list[int]) -> None:
    """Store the first rows of K and V at these slots."""
    for tensor in ("k", "v"):
        x = memory.read(tensor)
        scale = amax_scale(x)
        codes = e4m3(x / scale[:, :, None])
        for token, slot in enumerate(slots):
            memory.write(f"{tensor}_codes", slot, codes[token])
            memory.write(f"{tensor}_scales", slot, scale[token])


def test_a_cleared_gap_is_stray() -> None:
    """Zeros between the heads, told with where they lie and what they are."""

    def clear(memory: Memory, tensor: str, token: int, slot: int) -> None:
        del token
        placed = memory.placement.get(f"{tensor}_codes")
        gap = placed.strides[2] - placed.dims[3]
        if gap:
            array = memory.arrays[placed.allocation]
            for head in range(placed.dims[2]):
                end = placed.offset + slot * placed.strides[0] + head * placed.strides[2] + placed.dims[3]
                array[end : end + gap] = 0

    case = Case(heads=3, head_dim=64, k_cache="head_padded")
    (found,) = said(emitted(rowwise(clear), case))
    assert (found.fault, found.tensor, found.others) == ("stray-write", "k", found.of_others)
    assert "written in or beside k_codes, all with 0x00" in found.says
    assert "between its rows and heads" in found.says
    assert "stray-write" in seen(emulate(store, case))
    assert "stray-write" not in seen(emulate(store, SMALL))


def test_inputs_that_change_are_told_with_how() -> None:
    """Clamped, doubled or zeroed where they lie."""

    def change(how: Callable[[np.typing.NDArray[np.float32]], np.typing.NDArray[np.float32]]) -> None:
        def kernel(memory: Memory) -> None:
            store(memory)
            placed = memory.placement.get("v")
            array = memory.arrays[placed.allocation]
            size = int(np.prod(placed.dims)) * 4
            values = array[placed.offset : placed.offset + size].view(np.float32)
            values[:] = how(values)

        emission = emitted(kernel, Case(heads=2, head_dim=16, dtype="fp32", v_values="normal*1e4", tokens=2))
        (found,) = said(emission)
        assert (found.fault, found.tensor, found.others) == ("input-mutated", "v", found.of_others)
        told.append(found.says)

    told: list[str] = []
    change(lambda x: np.clip(x, -448, 448))
    change(lambda x: x * np.float32(2))
    change(lambda x: x * np.float32(0) + np.float32(0))
    assert ": clamped to ±448, in rows 0, 1" in told[0]
    assert ": multiplied by 2, in rows 0, 1" in told[1]
    assert ": set to zero, in rows 0, 1" in told[2]


def test_a_scale_that_stood_there_is_an_uninitialised_read() -> None:
    """A scale that never falls below the one before: launches differ with the prefill, and two agree."""

    def kernel(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            for token, slot in enumerate(memory.slots.tolist()):
                before = memory.row(f"{tensor}_scales", slot).view(np.float32)
                scale = amax_scale(x)[token]
                with np.errstate(invalid="ignore", over="ignore"):
                    kept = np.where(before > scale, before, scale)
                    codes = e4m3(x[token] / kept[:, None])
                memory.write(f"{tensor}_codes", slot, codes)
                memory.write(f"{tensor}_scales", slot, kept)

    found = said(emitted(kernel, SMALL, launches=4))
    assert {each.fault for each in found} == {"uninitialised-read"}
    assert "follow what stood in the cache before the launch" in found[0].says
    assert "scales are the ones that stood there" in found[0].says
    assert found[0].scales is not None
    assert found[0].scales.any()


def test_an_amax_one_element_too_wide_is_a_foreign_read() -> None:
    """The element behind the last head decides its scale."""

    def kernel(memory: Memory) -> None:
        store(memory)
        placed = memory.placement.get("v")
        x, scale = memory.read("v"), amax_scale(memory.read("v"))
        wide = memory.read("v", placed.strides)
        del wide
        array = memory.arrays[placed.allocation].view(np.uint16)
        for token, slot in enumerate(memory.slots.tolist()):
            behind = placed.offset // 2 + (token + 1) * placed.strides[0]
            value = (np.uint32(array[behind]) << np.uint32(16)).view(np.float32)
            scale[token, -1] = max(scale[token, -1], abs(value) / np.float32(448))
            memory.write("v_codes", slot, e4m3(x[token] / scale[token][:, None]))
            memory.write("v_scales", slot, scale[token])

    (found,) = said(emitted(kernel, Case(v_values="constant", heads=3, head_dim=64, tokens=1)))
    assert (found.fault, found.tensor) == ("foreign-read", "v")
    assert found.says.startswith("V's scale of the last head is that of one element more")
    assert found.codes is not None
    assert found.codes[:, -1].any()
    assert not found.codes[:, :-1].any()


def test_bytes_that_change_between_equal_launches_are_not_deterministic() -> None:
    """One code of each row depends on the launch alone."""

    def kernel(memory: Memory) -> None:
        store(memory)
        for slot in memory.slots.tolist():
            row = memory.row("k_codes", slot).copy()
            row[5] ^= memory.launch
            memory.write("k_codes", slot, row)

    (found,) = said(emitted(kernel, SMALL, launches=4))
    assert (found.fault, found.tensor) == ("nondeterministic", "k")
    assert found.says == (
        "8 bytes of K's rows change between launches that are equal in all they are given, in 8 of 8 tokens"
    )


def test_a_torn_slot_is_told_with_both_tokens() -> None:
    """Codes of the last token of a slot and the scale of the first; codes of both in turn."""

    def torn(memory: Memory) -> None:
        store(memory)
        first = {slot: token for token, slot in reversed(list(enumerate(memory.slots.tolist())))}
        for tensor in ("k", "v"):
            scale = amax_scale(memory.read(tensor))
            for slot, token in first.items():
                memory.write(f"{tensor}_scales", slot, scale[token])

    case = Case(heads=3, head_dim=64, slots="duplicates", tokens=4)
    found = said(emitted(torn, case))
    assert {each.fault for each in found} == {"duplicate-slot"}
    assert "holds the codes of token" in found[0].says
    assert "duplicate-slot" in seen(emulate(store, case))
    assert "duplicate-slot" not in seen(emulate(store, SMALL))

    def mixed(memory: Memory) -> None:
        store(memory)
        first = {slot: token for token, slot in reversed(list(enumerate(memory.slots.tolist())))}
        x = memory.read("k")
        codes = e4m3(x / amax_scale(x)[:, :, None])
        for slot, token in first.items():
            row = memory.row("k_codes", slot).reshape(codes.shape[1:]).copy()
            row[:, :32] = codes[token, :, :32]
            memory.write("k_codes", slot, row)

    (found_k,) = said(emitted(mixed, case))
    assert (found_k.fault, found_k.tensor) == ("duplicate-slot", "k")
    assert "codes of several tokens" in found_k.says


def test_scales_of_k_in_place_of_v() -> None:
    """The scales of each are written in place of the other's: no byte is lost or stray, and all are explained."""

    def kernel(memory: Memory) -> None:
        store(memory)
        for tensor, other in (("k", "v"), ("v", "k")):
            scale = amax_scale(memory.read(tensor))
            placed = memory.placement.get(f"{other}_scales")
            for token, slot in enumerate(memory.slots.tolist()):
                put(memory, placed, (slot, 0), scale[token])

    found = said(emitted(kernel, SMALL))
    assert {each.fault for each in found} == {"scale-address"}
    assert {each.says for each in found} >= {
        "K's scales are written where V's belong",
        "V's scales are written where K's belong",
    }


@pytest.mark.parametrize("form", [Form(), Form("packed", page=4)])
def test_codes_in_the_siblings_place(form: Form) -> None:
    """The pointers of both caches, or the halves of one, are exchanged; the scales are not."""

    def kernel(memory: Memory) -> None:
        store(memory)
        for tensor, other in (("k", "v"), ("v", "k")):
            x = memory.read(tensor)
            codes = e4m3(x / amax_scale(x)[:, :, None])
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{other}_codes", slot, codes[token])

    found = said(emitted(kernel, SMALL, form))
    assert {(each.fault, each.tensor) for each in found} == {("cache-layout", "k"), ("cache-layout", "v")}
    told = {each.says: each for each in found}
    assert told.keys() >= {"V's codes stand where K's belong", "K's codes stand where V's belong"}
    codes = told["V's codes stand where K's belong"].codes
    assert codes is not None
    assert codes.sum() > 1400


def test_the_siblings_scale_in_one_tensor_alone() -> None:
    """K's scale is stored as V's too; V's codes were made with V's own."""

    def kernel(memory: Memory) -> None:
        store(memory)
        scale = amax_scale(memory.read("k"))
        for token, slot in enumerate(memory.slots.tolist()):
            memory.write("v_scales", slot, scale[token])

    (found,) = said(emitted(kernel, SMALL))
    assert (found.fault, found.tensor, found.says) == ("scale-address", "v", "K's scales stand where V's belong")


def test_rows_at_their_tokens_numbers() -> None:
    """A kernel that forgets the slots."""

    def kernel(memory: Memory) -> None:
        store_rows(memory, list(range(len(memory.slots))))

    found = said(emitted(kernel, Case(heads=3, head_dim=64, slots="permuted")))
    assert {each.fault for each in found} == {"cache-layout", "scale-address"}
    assert all("written to the slots that have the tokens' own numbers" in each.says for each in found)


def test_what_shows_in_no_case_is_not_observable() -> None:
    """An even number of tokens loses none by pairs; dims of whole vectors lose none; no value is above 448."""
    shown = seen(emulate(store, SMALL))
    assert not shown & {"token-lost", "tail-mask", "negative-slot", "input-mutated", "index-wrap"}
    odd = seen(emulate(store, Case(heads=3, head_dim=46, tokens=3, k_values="normal*1e4", k_cache="padded")))
    assert odd >= {"token-lost", "tail-mask", "input-mutated"}
    assert "negative-slot" in seen(emulate(store, Case(heads=3, head_dim=64, slots="negative_mixed", tokens=3)))
    assert seen(emulate(store, Case(heads=3, head_dim=64, tokens=0))) == set()
