"""Scales of two bytes where four are due."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from judge.emulate import Bytes, Floats, Memory, amax_scale, emulate, store

from kvcheck.diagnose import diagnose
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis

Kind: TypeAlias = Callable[[Floats], Bytes]


def bf16(scale: Floats) -> Bytes:
    """To nearest: no scale here lies between two."""
    rounded = np.ascontiguousarray(scale).view(np.uint32) + np.uint32(0x8000)
    return np.asarray((rounded >> 16).astype(np.uint16)[:, None].view(np.uint8))


def fp16(scale: Floats) -> Bytes:
    """To nearest."""
    return np.asarray(scale.astype(np.float16)[:, None].view(np.uint8))


def anything(scale: Floats) -> Bytes:
    """The first two bytes of each."""
    return np.asarray(np.ascontiguousarray(scale)[:, None].view(np.uint8)[:, :2])


def found(kind: Kind, last: int = 2) -> tuple[Diagnosis, ...]:
    """What is named where V's scales have their first two bytes by `kind`, and from byte `last` on what stood there."""

    def run(memory: Memory) -> None:
        before = {slot: memory.row("v_scales", slot).copy() for slot in memory.slots.tolist()}
        store(memory)
        scale = amax_scale(memory.read("v"))
        for token, slot in enumerate(memory.slots.tolist()):
            row = memory.row("v_scales", slot).copy().reshape(-1, 4)
            row[:, last:] = before[slot].reshape(-1, 4)[:, last:]
            row[:, :2] = kind(scale[token])
            memory.write("v_scales", slot, row.reshape(-1))

    emission = emulate(run, Case(tokens=3, heads=3, head_dim=64))
    return diagnose(emission, judge(emission))


@pytest.mark.parametrize(("kind", "dtype"), [(bf16, "bf16"), (fp16, "fp16")])
def test_names_the_type_that_is_stored(kind: Kind, dtype: str) -> None:
    """The rest of each scale is not lost: nothing was to be stored there."""
    (made,) = found(kind)
    assert (made.fault, made.tensor, made.explains, made.of) == ("scale-layout", "v", 9, 9)
    assert f"V's scales are stored as {dtype}, in the first two of the four bytes of each" in made.says
    assert made.evidence["dtype"] == dtype


def test_other_bytes_are_of_no_type() -> None:
    """Half a right scale is a right scale's half, and the rest is lost."""
    (made,) = found(anything)
    assert made.fault == "token-lost"
    assert "V's scales of all 3 tokens, 18 bytes of them, are never stored" in made.says


def test_scales_that_are_stored_in_full_are_not_short() -> None:
    """The second half is there, whatever the first is."""
    assert "stored as" not in " ".join(each.says for each in found(bf16, last=4))
