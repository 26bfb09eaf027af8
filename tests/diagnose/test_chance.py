"""Codes that change between equal launches: of no rule, and of no arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from judge.emulate import Memory, amax_scale, e4m3, store

from kvcheck.formats import bits
from kvcheck.schema import Case

from .test_evidence import found


def test_codes_that_change_by_chance_are_of_no_rule() -> None:
    """Every wrong code lies beside a tie, but a rule of values would have made the same ones in launch 4."""

    def run(memory: Memory) -> None:
        store(memory)
        x = memory.read("v")
        random = np.random.default_rng(memory.launch)
        scaled = x / amax_scale(x)[:, :, None]
        away = bits.encode(scaled, rounding="half_away")
        codes = np.where(random.random(x.shape) < 0.5, away, e4m3(scaled)).astype(np.uint8)
        for token, slot in enumerate(memory.slots):
            memory.write("v_codes", int(slot), codes[token])

    made = found(run, Case(tokens=3, dtype="fp32", v_values="midpoints"), launches=4)
    assert [each.fault for each in made] == ["nondeterministic"]


@pytest.mark.parametrize(
    "case",
    [
        Case(tokens=3, dtype="fp16", v_values="traps"),
        Case(tokens=3, dtype="fp16", v_values="midpoints"),
        Case(tokens=3, dtype="bf16", v_values="midpoints"),
    ],
    ids=lambda case: f"{case.v_values}-{case.dtype}",
)
def test_values_alike_that_chance_rounds_alike_are_of_no_arithmetic(case: Case) -> None:
    """What is wrong in launch 1 is so in launch 4; other codes beside ties change, as by no arithmetic."""

    def run(memory: Memory) -> None:
        store(memory)
        x = memory.read("v")
        scaled = x / amax_scale(x)[:, :, None]
        chosen = (np.frexp(scaled)[1] % 2 == 1) if memory.launch < 4 else np.True_
        codes = np.where(chosen, bits.encode(scaled, rounding="half_away"), e4m3(scaled)).astype(np.uint8)
        for token, slot in enumerate(memory.slots):
            memory.write("v_codes", int(slot), codes[token])

    assert [each.fault for each in found(run, case, launches=4)] == ["nondeterministic"]
