"""Tokens that share a slot: any one's row is right, whole; bytes of two tokens in one row are not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from judge.emulate import COMPUTED, Memory, amax_scale, e4m3, emulate, given_store, store
from kvcheck.contract import Contract, Given
from kvcheck.draw import slots, values
from kvcheck.judge import judge
from kvcheck.schema import Case, Emission


@pytest.fixture(autouse=True)
def _shared_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a kind of slots in which tokens 1, 4 and 6 share slot 9, and token 2 is not stored."""

    def kind(tokens: int, count: int, page: int, seed: int) -> np.typing.NDArray[np.int64]:
        del count, page, seed
        ids = np.arange(20, 20 + tokens, dtype=np.int64)
        ids[[1, 4, 6]] = 9
        ids[2] = -1
        return ids

    monkeypatch.setitem(slots._KINDS, "shared", kind)


CASE = Case(slots="shared")


def winner(choose: Callable[[int, int], int]) -> Callable[[Memory], None]:
    """Return a kernel that leaves in slot 9 the row of token `choose(launch, head)`, for K and V alike."""

    def kernel(memory: Memory) -> None:
        store(memory)
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = amax_scale(x)
            codes = e4m3(x / scale[:, :, None])
            tokens = [choose(memory.launch, head) for head in range(3)]
            memory.write(f"{tensor}_codes", 9, codes[tokens, range(3)])
            memory.write(f"{tensor}_scales", 9, scale[tokens, range(3)])

    return kernel


@pytest.mark.parametrize("token", [1, 4, 6])
def test_any_sharing_token_may_win(token: int) -> None:
    """Each one's row is right; the slot's bytes are compared once."""
    verdict = judge(emulate(winner(lambda _launch, _head: token), CASE))
    assert (verdict.outcome, verdict.codes.compared, verdict.scales.compared) == ("pass", 5 * 768, 30)


def test_the_winner_may_change_between_launches_and_heads() -> None:
    """A race is no violation where the contract allows any row."""
    verdict = judge(emulate(winner(lambda launch, head: (1, 4, 6)[(launch + head) % 3]), CASE))
    assert (verdict.outcome, verdict.independence.differs, verdict.determinism.values_drift) == ("pass", 0, 0)


def test_another_tokens_row_is_wrong() -> None:
    """Token 0 does not share the slot: its row there is wrong, and the first wrong code is held against a sharer."""
    verdict = judge(emulate(winner(lambda _launch, _head: 0), CASE))
    assert (verdict.outcome, verdict.scales.wrong) == ("mismatch", 6)
    assert verdict.codes.wrong > 600
    assert verdict.codes.first is not None
    assert verdict.codes.first.slot == 9
    assert verdict.codes.first.token in (1, 4, 6)


def test_a_race_is_not_a_drift() -> None:
    """Equal launches may leave unlike rows in a shared slot."""
    shared = judge(emulate(winner(lambda launch, _head: 1 if launch < 3 else 4), CASE, launches=4))
    assert (shared.outcome, shared.determinism.values_drift, shared.independence.differs) == ("pass", 0, 0)


def test_codes_and_scale_must_be_of_one_token() -> None:
    """Token 1's codes beside token 4's scale: three scales of K are wrong, and no code."""

    def kernel(memory: Memory) -> None:
        winner(lambda _launch, _head: 1)(memory)
        memory.write("k_scales", 9, amax_scale(memory.read("k"))[4])

    verdict = judge(emulate(kernel, CASE))
    assert (verdict.outcome, verdict.scales.wrong, verdict.codes.wrong) == ("mismatch", 3, 0)


@pytest.mark.parametrize("token", [1, 4, 6])
def test_rows_of_equal_codes_are_told_apart_by_their_scales(token: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are each other's doubles have the same codes: whoever wins, the scale is held against its own."""

    def doubles(draw: values._Draw) -> np.typing.NDArray[np.float64]:
        row = values._normal(draw).reshape(8, -1)[:1]
        return (row * np.exp2(np.arange(8))[:, None]).reshape(draw.rows, draw.dim)

    monkeypatch.setitem(values._KINDS, "doubles", doubles)
    case = msgspec.structs.replace(CASE, v_values="doubles")
    assert judge(emulate(winner(lambda _launch, _head: token), case)).outcome == "pass"


def test_a_sharing_token_whose_codes_are_open_may_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """Token 4 is NaN alone and the contract leaves its codes open: any bytes are its row."""

    def nan_row(draw: values._Draw) -> np.typing.NDArray[np.float64]:
        rows = values._normal(draw).reshape(8, -1)
        rows[4] = np.nan
        return rows.reshape(draw.rows, draw.dim)

    def kernel(memory: Memory) -> None:
        given_store(2**-3, 2**-4)(memory)
        memory.write("k_codes", 9, np.full(384, 0x11, np.uint8))

    monkeypatch.setitem(values._KINDS, "nan_row", nan_row)
    case = msgspec.structs.replace(CASE, k_values="nan_row")
    loose = judge(emulate(kernel, case, Contract(scale=Given("tensor"), nan="undefined")))
    assert (loose.outcome, loose.codes.compared) == ("pass", 5 * 768 - 384)
    assert judge(emulate(kernel, case, Contract(scale=Given("tensor")))).outcome == "mismatch"


def test_a_row_of_bytes_from_two_tokens_is_wrong() -> None:
    """Half of a head from token 1 and half from token 4 is no token's row."""

    def kernel(memory: Memory) -> None:
        winner(lambda _launch, _head: 1)(memory)
        x = memory.read("v")[[1, 4]]
        codes = e4m3(x / amax_scale(x)[:, :, None])
        memory.write("v_codes", 9, np.concatenate([codes[0][:, :64], codes[1][:, 64:]], axis=1))

    verdict = judge(emulate(kernel, CASE))
    assert (verdict.outcome, verdict.codes.k_wrong) == ("mismatch", 0)
    assert verdict.codes.v_wrong > 100


def test_a_scale_a_token_names_one_token_for_all_heads() -> None:
    """Under one scale a token, heads of two tokens in one row are wrong, and one token's row is right."""
    contract = Contract(scale=msgspec.structs.replace(COMPUTED.scale, granularity="token"))  # type: ignore[type-var]

    def kernel(memory: Memory, heads: list[int], scaled: int = 4) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = (np.abs(x).max(axis=(1, 2)) / np.float32(448)).astype(np.float32)
            codes = e4m3(x / scale[:, None, None])
            for token, slot in enumerate(memory.slots.tolist()):
                if slot >= 0:
                    memory.write(f"{tensor}_codes", slot, codes[token])
                    memory.write(f"{tensor}_scales", slot, scale[token])
            memory.write(f"{tensor}_codes", 9, codes[heads, range(3)])
            memory.write(f"{tensor}_scales", 9, scale[scaled])

    assert judge(emulate(lambda memory: kernel(memory, [4, 4, 4]), CASE, contract)).outcome == "pass"
    mixed = judge(emulate(lambda memory: kernel(memory, [4, 1, 4]), CASE, contract))
    assert (mixed.outcome, mixed.scales.wrong) == ("mismatch", 0)
    assert 200 < mixed.codes.wrong <= 256
    unscaled = judge(emulate(lambda memory: kernel(memory, [4, 1, 4], 6), CASE, contract))
    assert unscaled.scales.wrong == 2
    assert 200 < unscaled.codes.wrong <= 256


def test_shared_slots_with_a_scale_a_block_or_a_given_one() -> None:
    """Whoever wins is right, a block of elements or a whole tensor having the scale."""
    blocks = Contract(scale=msgspec.structs.replace(COMPUTED.scale, granularity="block:32"))  # type: ignore[type-var]

    def kernel(memory: Memory, given: bool) -> None:
        for tensor, value in (("k", 2**-3), ("v", 2**-4)):
            x = memory.read(tensor).reshape(8, 3, -1, 32)
            scale = (np.abs(x).max(axis=3) / np.float32(448)).astype(np.float32)
            codes = e4m3(x / (np.float32(value) if given else scale[..., None])).reshape(8, 3, 128)
            for token in (0, 1, 3, 4, 5, 6, 7, 4):
                memory.write(f"{tensor}_codes", int(memory.slots[token]), codes[token])
                if not given:
                    memory.write(f"{tensor}_scales", int(memory.slots[token]), scale[token])

    assert judge(emulate(lambda memory: kernel(memory, given=False), CASE, blocks)).outcome == "pass"
    contract = Contract(scale=Given("tensor"))
    assert judge(emulate(lambda memory: kernel(memory, given=True), CASE, contract)).outcome == "pass"


def test_undefined_duplicates_are_unsupported() -> None:
    """A contract that leaves shared slots open cannot be judged on them."""
    contract = msgspec.structs.replace(COMPUTED, duplicate_slots="undefined")
    verdict = judge(emulate(case=CASE, contract=contract))
    assert verdict.outcome == "unsupported"
    assert "duplicate_slots='undefined'" in verdict.reason
    assert judge(emulate(contract=contract)).outcome == "pass"


def test_unlike_bytes_for_one_slot_are_inconclusive() -> None:
    """An emission that lists two different rows for one slot is malformed."""
    emission: Emission = emulate(case=CASE)
    launch = emission.launches[1]
    codes = bytearray(launch.rows["v_codes"])
    codes[384 * 1] ^= 1
    torn = msgspec.structs.replace(launch, rows={**launch.rows, "v_codes": bytes(codes)})
    launches = (emission.launches[0], torn, emission.launches[2])
    verdict = judge(msgspec.structs.replace(emission, launches=launches))
    assert (verdict.outcome, verdict.reason) == (
        "inconclusive",
        "launch 2: v_codes holds unlike bytes for one slot, 9",
    )
