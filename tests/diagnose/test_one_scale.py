"""Programs that keep the scales of all heads of a row in one place: told from scales that are lost and no more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from judge.emulate import Floats, Kernel, Memory, amax_scale, e4m3, emulate

from kvcheck.diagnose import diagnose
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis

#: Scales of a row `[heads]` → the one that is kept, of a token.
Kept = Callable[[Floats, int], np.float32]


def store(kept: Kept) -> Kernel:
    """A store that keeps one scale a row, in the first head's place."""

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = amax_scale(x)
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, e4m3(x[token] / scale[token][:, None]))
                raw = memory.row(f"{tensor}_scales", slot).copy()
                raw[:4] = np.frombuffer(np.float32(kept(scale[token], token)).tobytes(), np.uint8)
                memory.write(f"{tensor}_scales", slot, raw)

    return run


def named(kept: Kept, heads: int = 3) -> tuple[Diagnosis, ...]:
    """What is named of it."""
    emission = emulate(store(kept), Case(tokens=6, heads=heads, head_dim=64))
    return diagnose(emission, judge(emission))


@pytest.mark.parametrize(
    ("kept", "heads"),
    [(lambda scale, _: scale[2], "2"), (lambda scale, token: scale[1 + token % 2], "1, 2")],
    ids=["last", "either"],
)
def test_the_head_whose_scale_stays_is_told(kept: Kept, heads: str) -> None:
    """All scales of both tensors are explained, the lost ones with the wrong one."""
    found = named(kept)
    assert [(each.fault, each.explains, each.of) for each in found] == [("scale-address", 18, 18)] * 2
    assert f"where head 0's belongs, and one stays: that of head {heads};" in found[0].says


def test_scales_of_other_heads_that_are_lost_are_lost_alone() -> None:
    """Where the first head's place holds its own scale nobody knows where the others went; the sentence names it."""
    found = named(lambda scale, _: scale[0])
    assert [(each.fault, each.explains) for each in found] == [("token-lost", 12)] * 2
    assert "scales of all 6 tokens, but those of number 0 in each row, are never stored" in found[0].says


def test_a_scale_of_nobody_is_no_head_s() -> None:
    """A number that no head of the row has is not one of theirs."""
    assert all(each.fault != "scale-address" for each in named(lambda scale, _: scale[0] * np.float32(1.5)))


def test_one_head_has_no_other() -> None:
    """A row of one scale that is right passes."""
    assert named(lambda scale, _: scale[0], heads=1) == ()
