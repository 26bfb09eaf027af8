"""Memory before a launch: bytes at any address, zero where nothing was placed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge.emulate import Memory, emulate, store

from kvcheck.diagnose.image import SourceMemory
from kvcheck.schema import Case, Placed


@given(st.lists(st.integers(-20, 60), min_size=1, max_size=8))
def test_bytes_are_those_of_the_allocation_that_has_the_address(addresses: list[int]) -> None:
    """Two allocations, given out of order with a gap between: every address reads its byte, or zero."""
    first, second = np.arange(1, 11, dtype=np.uint8), np.arange(101, 106, dtype=np.uint8)
    memory = SourceMemory([second, first, np.zeros(0, np.uint8)], [30, 0, 12])
    lies = {index: index + 1 for index in range(10)} | {30 + index: 101 + index for index in range(5)}
    found = memory.bytes_at(np.array(addresses, np.int64))
    assert found.tolist() == [lies.get(address, 0) for address in addresses]


def test_no_memory_reads_as_zero() -> None:
    """A case without an allocation, or with empty ones, has zeros everywhere."""
    nothing = SourceMemory([np.zeros(0, np.uint8)], [0])
    assert nothing.bytes_at(np.array([[-1, 0, 1]])).tolist() == [[0, 0, 0]]
    assert SourceMemory([], []).bytes_at(np.array([7])).tolist() == [0]


def test_neighbours_may_touch_and_not_overlap() -> None:
    """Allocations that share a byte, or lack an address, are refused."""
    two = [np.zeros(4, np.uint8), np.ones(4, np.uint8)]
    assert SourceMemory(two, [0, 4]).bytes_at(np.array([3, 4])).tolist() == [0, 1]
    with pytest.raises(ValueError, match="overlap"):
        SourceMemory(two, [0, 3])
    with pytest.raises(ValueError, match="1 allocations have 2 addresses"):
        SourceMemory(two[:1], [0, 8])


def test_elements_that_straddle_an_allocations_end_keep_their_own_bytes() -> None:
    """The upper half of a bf16 lies outside: it is zero, and the lower half is not."""
    memory = SourceMemory([np.array([0x80, 0x3F, 0x40], np.uint8)], [0])
    placed = Placed("v", 0, 0, "bf16", (2,), (1,))
    assert memory.read(placed).tolist() == [1.0, float(np.array([0x00400000], np.uint32).view(np.float32)[0])]


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("layout", ["arena", "pooled"])
def test_k_and_v_read_as_the_kernel_read_them(dtype: str, layout: str) -> None:
    """At the emission's addresses stand the values that the emulated kernel was given."""
    seen: list[np.typing.NDArray[np.float32]] = []

    def kernel(memory: Memory) -> None:
        seen.append(memory.read("v"))
        store(memory)

    case = Case(dtype=dtype, layout=layout, v_view="qkv", tokens=3)  # type: ignore[arg-type]
    emission = emulate(kernel, case)
    memory = SourceMemory.of(emission)
    placed = emission.placement.get("v")
    assert memory.read(placed).tobytes() == seen[0].tobytes()
