"""Scales of a row's blocks at other places: as columns, several at one place, or all at one."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from judge.emulate import Kernel, Memory, e4m3

from kvcheck.contract import Computed, Contract
from kvcheck.diagnose import diagnose
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis, Placed

from .faulty import as_placed, emitted, put

BLOCK = 32
CONTRACT = Contract(scale=Computed(f"block:{BLOCK}"))

#: Which block's place a block takes, of so many.
Takes = Callable[[int, int], int]


def store(takes: Takes, lies: Callable[[Memory, Placed], Placed] = as_placed) -> Kernel:
    """A store whose scales go to other blocks' places, in their order, or lie otherwise."""

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x, placed = memory.read(tensor), memory.placement.get(f"{tensor}_scales")
            used = lies(memory, placed)
            scale = np.asarray(np.abs(x).reshape(*x.shape[:2], -1, BLOCK).max(axis=3) / np.float32(448), np.float32)
            codes = e4m3(np.asarray(x / np.repeat(scale, BLOCK, axis=2), np.float32))
            item = msgspec.structs.replace(used, dims=(*used.dims[:3], 1))
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])
                for block in range(scale.shape[2]):
                    begin = used.offset + 4 * used.strides[3] * takes(block, scale.shape[2])
                    place = msgspec.structs.replace(item, offset=begin)
                    put(memory, place, divmod(slot, placed.dims[1]), np.ascontiguousarray(scale[token, :, block]))

    return run


def columns(memory: Memory, placed: Placed) -> Placed:
    """All slots' scales of a block one behind the other."""
    slots = memory.placement.slots
    return msgspec.structs.replace(placed, strides=(1, 1, placed.dims[3] * slots, slots))


def named(kernel: Kernel, heads: int) -> tuple[Diagnosis, ...]:
    """What is named of a store of heads of four blocks."""
    emission = emitted(kernel, Case(tokens=6, heads=heads, head_dim=128, slots="permuted"), contract=CONTRACT)
    return diagnose(emission, judge(emission))


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (store(lambda block, count: block, columns), "written as in [heads, blocks, slots]"),  # noqa: ARG005
        (store(lambda block, count: block // 2), "written 2 blocks to one place, block b at b // 2"),  # noqa: ARG005
    ],
)
def test_places_of_blocks_are_named(kernel: Kernel, words: str, heads: int) -> None:
    """Codes are right, and every wrong scale is explained, those that were stored over included."""
    found = named(kernel, heads)
    assert [each.fault for each in found] == ["scale-layout"] * 2
    assert all(words in each.says and each.explains == each.of > 0 for each in found)


def test_one_place_of_all_blocks_is_said_of_blocks() -> None:
    """A row of one head has one scale, that of its last block; of heads nothing is said."""
    first = named(store(lambda block, count: 0), 1)[0]  # noqa: ARG005
    assert first.fault == "scale-address"
    assert (
        "scales of all blocks of a row are stored where block 0's belongs, and one stays: that of block 3" in first.says
    )


def test_a_scale_of_one_place_that_is_nobody_s_is_lost() -> None:
    """Where each third block's place is taken by two of them, no number of blocks to a place gives it."""
    found = named(store(lambda block, count: min(block, 2)), 3)  # noqa: ARG005
    assert all("to one place" not in each.says for each in found)
