"""Codes by the scales of the tokens beside, whatever the one at the end has; and scales cut to bf16."""

from __future__ import annotations

import numpy as np
import pytest
from judge.emulate import amax_scale, emulate

from kvcheck.diagnose import diagnose
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis

from .test_scales import Floats, Rule, kernel


def named(rule: Rule, tokens: int = 6) -> tuple[Diagnosis, ...]:
    """What is named of V where a store has this rule for it."""
    emission = emulate(kernel(rule, "v"), Case(tokens=tokens, heads=3, head_dim=64, dtype="fp32"))
    return diagnose(emission, judge(emission))


def beside(step: int, end: float) -> Rule:
    """Codes by the scale of the token `step` before; what the end has is `end` times its own."""

    def rule(x: Floats) -> tuple[Floats, Floats]:
        scale = amax_scale(x)
        used = np.roll(scale, step, axis=0)
        last = 0 if step > 0 else -1
        used[last] = scale[last] * np.float32(end)
        return scale, np.asarray(x / used[:, :, None], np.float32)

    return rule


@pytest.mark.parametrize(
    ("step", "words"), [(1, "the scales of the token before"), (-1, "the scales of the token behind")]
)
@pytest.mark.parametrize("end", [1.0, 3.0, 0.3])
def test_what_the_end_has_is_not_asked(step: int, words: str, end: float) -> None:
    """All other rows are explained, and the end where it has its own scale."""
    first = named(beside(step, end))[0]
    assert (first.fault, first.tensor) == ("scale-address", "v")
    assert words in first.says
    rows = 5 / 6
    assert first.explains == first.of if end == 1 else rows * 0.9 < first.explains / first.of < 1


def test_of_two_tokens_either_is_an_end() -> None:
    """One row alone has another's scale, and one something else: that is no rule of tokens."""
    assert all("of the token" not in each.says for each in named(beside(1, 3.0), tokens=2))


def cut(scale: Floats) -> Floats:
    """The first half of each number."""
    bits = np.ascontiguousarray(scale).view(np.uint32) & np.uint32(0xFFFF0000)
    return np.asarray(bits.view(np.float32), np.float32)


@pytest.mark.parametrize(
    ("used", "words"), [(False, "codes are those of those before they were cut"), (True, "the cut ones")]
)
def test_scales_that_are_cut_are_not_rounded(used: bool, words: str) -> None:
    """Kept without the second half of their bits, from then on or in the cache alone."""

    def rule(x: Floats) -> tuple[Floats, Floats]:
        scale = amax_scale(x)
        return cut(scale), np.asarray(x / (cut(scale) if used else scale)[:, :, None], np.float32)

    first = named(rule)[0]
    assert (first.fault, first.tensor, first.explains) == ("scale-rounded", "v", first.of)
    assert "scales are cut to bf16 when they are kept" in first.says
    assert words in first.says
