"""Populations of an amax where a scale is one of several in a row, or one for many rows: named by what they took."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from judge.emulate import COMPUTED, Floats, Kernel, Memory, amax_scale, e4m3, emulate

from kvcheck.contract import Computed, Contract
from kvcheck.diagnose import diagnose
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.other_parts import of_other_parts
from kvcheck.judge import judge
from kvcheck.schema import Case

from . import test_scales

BLOCK = 32
BLOCKS = Contract(scale=Computed(f"block:{BLOCK}"))
TOKEN = Contract(scale=Computed("token"))
CASE = Case(tokens=6, heads=3, head_dim=128)

#: Rows' magnitudes → what is taken for the amax of each scale.
Amax = Callable[[Floats], Floats]


def blocks(x: Floats) -> Floats:
    """The amax of each block: `[tokens, heads, blocks]`."""
    return np.asarray(x.reshape(*x.shape[:2], -1, BLOCK).max(axis=3))


def head_for_blocks(x: Floats) -> Floats:
    """One amax for all blocks of a head."""
    return np.broadcast_to(x.max(axis=2, keepdims=True), blocks(x).shape)


def pairs(x: Floats) -> Floats:
    """One amax for two blocks."""
    return np.repeat(np.maximum(blocks(x)[:, :, ::2], blocks(x)[:, :, 1::2]), 2, axis=2)


def store(amax: Amax, group: int) -> Kernel:
    """A store whose scales are those of `amax`, each for so many elements of a head; 0 for all heads of a token."""

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = np.asarray(amax(np.abs(x)) / np.float32(448), np.float32)
            each = np.repeat(scale, group, axis=2) if group else scale[:, None, None]
            codes = e4m3(x / each)
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])
                memory.write(f"{tensor}_scales", slot, scale[token])

    return run


@pytest.mark.parametrize(
    ("contract", "amax", "words"),
    [
        (BLOCKS, head_for_blocks, "the whole head"),
        (BLOCKS, pairs, "2 blocks together"),
        (BLOCKS, lambda x: np.roll(blocks(x), -1, axis=2), "the block behind"),
        (BLOCKS, lambda x: np.roll(blocks(x), 1, axis=2), "the block before"),
        (TOKEN, lambda x: x[:, 0].max(axis=1), "the first head"),
        (TOKEN, lambda x: x[:, -1].max(axis=1), "the last head"),
    ],
)
def test_a_population_of_the_wrong_blocks_or_heads_is_named(contract: Contract, amax: Amax, words: str) -> None:
    """Every wrong scale and code of both tensors is explained by it."""
    emission = emulate(store(amax, BLOCK if contract is BLOCKS else 0), CASE, contract)
    found = diagnose(emission, judge(emission))
    assert [each.fault for each in found] == ["amax-population"] * 2
    assert all(f"largest magnitude of {words}, and its codes are theirs" in each.says for each in found)
    assert all(each.explains == each.of > 0 for each in found)
    assert "unexplained" not in found[-1].evidence


@pytest.mark.parametrize(("contract", "group"), [(BLOCKS, BLOCK), (TOKEN, 0)])
def test_the_right_population_is_none_of_them(contract: Contract, group: int) -> None:
    """A right store passes, so that the cases above show the population and nothing else."""
    amax = blocks if group else lambda x: x.max(axis=(1, 2))
    emission = emulate(store(amax, group), CASE, contract)
    assert judge(emission).outcome == "pass"


def in_order(order: list[int]) -> Kernel:
    """A store whose scales are kept in another order of a head's blocks."""

    def run(memory: Memory) -> None:
        store(blocks, BLOCK)(memory)
        for tensor in ("k", "v"):
            scale = np.asarray(blocks(np.abs(memory.read(tensor))) / np.float32(448), np.float32)
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_scales", slot, np.ascontiguousarray(scale[token][:, order]))

    return run


@pytest.mark.parametrize(
    ("order", "words"),
    [([3, 2, 1, 0], "the row's blocks in reverse"), ([1, 3, 0, 2], "order: 0 holds 1's, 1 holds 3's, 2 holds 0's")],
)
def test_blocks_in_another_order_are_named_with_it(order: list[int], words: str) -> None:
    """Codes are right by the scales that are due, which stand in each other's places."""
    emission = emulate(in_order(order), CASE, BLOCKS)
    found = diagnose(emission, judge(emission))
    assert [each.fault for each in found] == ["scale-layout"] * 2
    assert all(words in each.says and each.evidence["order"] == order for each in found)


def test_one_row_has_no_order() -> None:
    """In one row some scale is like another by chance: no order is claimed."""
    emission = emulate(in_order([3, 2, 1, 0]), Case(tokens=1, heads=1), BLOCKS)
    assert "scale-layout" not in {
        each.fault for each in diagnose(emission, judge(emission)) if "order" in each.evidence
    }


def test_one_block_and_one_head_have_no_other() -> None:
    """A head of one block, or a token of one head, is whole: what is wrong there is none of these populations."""
    for contract, case, group in ((BLOCKS, Case(head_dim=BLOCK), BLOCK), (TOKEN, Case(heads=1), 0)):
        half = lambda x: np.asarray((blocks(x) if group else x.max(axis=(1, 2))) * np.float32(0.3))  # noqa: B023, E731
        emission = emulate(store(half, group), case, contract)
        found = diagnose(emission, judge(emission))
        assert not any("block" in each.says or "head" in each.says for each in found)


def last_by_the_one_before(x: Floats) -> Floats:
    """Each block's own amax, but that the last block has the one before's."""
    return np.asarray(blocks(x)[:, :, [0, 1, 2, 2]])


@pytest.mark.parametrize("tokens", [1, 6])
def test_blocks_that_have_another_s_amax_are_named_with_it(tokens: int) -> None:
    """The last block's scale and codes are explained, and no other is wrong."""
    case = Case(tokens=tokens, heads=3, head_dim=128)
    emission = emulate(store(last_by_the_one_before, BLOCK), case, BLOCKS)
    found = diagnose(emission, judge(emission))
    assert [each.fault for each in found] == ["amax-population"] * 2
    assert all("other blocks' elements: block 3 has 2's, and its codes are theirs" in each.says for each in found)
    assert all(each.explains == each.of > 0 and each.evidence["order"] == [0, 1, 2, 2] for each in found)


ROWS = Contract(scale=Computed("token_head"))


def by_rows(amax: Amax) -> Kernel:
    """A store of one scale a token and head."""

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = np.asarray(amax(np.abs(x)) / np.float32(448), np.float32)
            codes = e4m3(x / scale[:, :, None])
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])
                memory.write(f"{tensor}_scales", slot, scale[token])

    return run


@pytest.mark.parametrize(
    ("amax", "fault", "words"),
    [
        (lambda x: x.reshape(6, 128, 3).max(axis=1), "amax-population", "the token's elements, dealt to its heads"),
        (lambda x: x.max(axis=2)[[0, 0, 0, 0, 4, 4]], "amax-population", "the first of every 4 tokens"),
        (lambda x: x.max(axis=2)[[0] * 6], "amax-population", "the first token, and its codes are theirs"),
        (lambda x: x.max(axis=2)[:, [1, 1, 0]], "amax-population", "head 0 has 1's, head 2 has 0's"),
    ],
)
def test_a_population_of_other_rows_is_named(amax: Amax, fault: str, words: str) -> None:
    """Every wrong scale and code is explained."""
    emission = emulate(by_rows(amax), CASE, ROWS)
    found = diagnose(emission, judge(emission))
    assert [each.fault for each in found] == [fault] * 2
    assert all(words in each.says and each.explains == each.of > 0 for each in found)


def test_a_map_that_no_head_s_amax_gives_is_none() -> None:
    """Of three heads two have each other's scale, and one has its own halved: nothing is said of other heads."""

    def amax(x: Floats) -> Floats:
        found = x.max(axis=2)[:, [1, 0, 2]]
        found[:, 2] *= np.float32(0.5)
        return np.asarray(found)

    emission = emulate(by_rows(amax), CASE, ROWS)
    assert not any("other heads" in each.says for each in diagnose(emission, judge(emission)))


def test_one_scale_that_is_another_heads_is_no_map() -> None:
    """Any number is some other's by chance: a map of heads is met more than once."""

    def rule(x: Floats) -> tuple[Floats, Floats]:
        scale = amax_scale(x)
        scale[:, 1] = scale[:, 0]
        return scale, np.asarray(x / scale[:, :, None], np.float32)

    for tokens, named in ((1, False), (4, True)):
        emission = emulate(test_scales.kernel(rule, "v"), Case(tokens=tokens, heads=3, head_dim=64, dtype="fp32"))
        facts = Facts(emission, COMPUTED, judge(emission))
        assert (of_other_parts(facts, "v", facts.emitted("v")) is not None) == named
