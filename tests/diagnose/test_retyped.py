"""Sources read as another type: the numbers that the bits are, wherever a kernel's steps lead."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from judge.emulate import Kernel, Memory, amax_scale, e4m3, emulate
from msgspec.structs import replace

from kvcheck.diagnose import diagnose
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis

Source = Literal["bf16", "fp16", "fp32"]


def reads(tensors: str, dtype: Source, *times: int) -> Kernel:
    """A store that reads tensors as another type, their token and head strides so many times what they are."""

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            seen = memory
            if tensor in tensors:
                placed = memory.placement.get(tensor)
                strides = (*(stride * each for stride, each in zip(placed.strides, times, strict=False)), 1)
                others = [each for each in memory.placement.tensors if each.name != tensor]
                other = replace(placed, dtype=dtype, strides=strides)
                seen = Memory(memory.arrays, replace(memory.placement, tensors=(*others, other)), memory.launch)
            x = seen.read(tensor)
            scale = amax_scale(x)
            with np.errstate(all="ignore"):
                codes = e4m3(np.asarray(x / scale[:, :, None], np.float32))
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])
                memory.write(f"{tensor}_scales", slot, scale[token])

    return run


def found(kernel: Kernel, dtype: Source) -> tuple[Diagnosis, ...]:
    """What is named of a store of rows of a type."""
    emission = emulate(kernel, Case(tokens=5, heads=3, head_dim=80, dtype=dtype, k_view="qkv", v_view="qkv"))
    return diagnose(emission, judge(emission))


@pytest.mark.parametrize(
    ("kernel", "dtype", "words"),
    [
        (reads("k", "bf16", 2, 2), "fp32", "read as bf16 within each head, strides counted in its elements"),
        (reads("k", "fp16", 2, 2), "fp32", "read as fp16 within each head, strides counted in its elements"),
        (reads("k", "bf16", 1, 1), "fp32", "read as bf16, strides counted in its elements; its numbers are fp32"),
        (reads("k", "fp32", 1, 1), "bf16", "read as fp32, strides counted in its elements; its numbers are bf16"),
        (reads("k", "fp16", 1, 1), "bf16", "read as fp16; its numbers are bf16"),
        (reads("k", "bf16", 1, 1), "fp16", "read as bf16; its numbers are fp16"),
    ],
)
def test_the_type_that_is_read_is_told(kernel: Kernel, dtype: Source, words: str) -> None:
    """With how its steps are counted; every wrong code of K is explained, and V has none."""
    (first,) = found(kernel, dtype)
    assert (first.fault, first.tensor, first.explains) == ("reinterpreted-source", "k", first.of)
    assert words in first.says


def test_other_steps_are_no_other_type() -> None:
    """Halves that are three times as far apart as K's elements are nobody's."""
    assert all(each.fault != "reinterpreted-source" for each in found(reads("k", "bf16", 3, 3), "fp32"))
