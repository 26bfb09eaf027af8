"""Codes by the scales of the tokens beside, whatever the one at the end has; and scales cut to bf16."""

from __future__ import annotations

import numpy as np
import pytest
from judge.emulate import Memory, amax_scale, e4m3, emulate

from kvcheck.contract import Computed, Contract
from kvcheck.diagnose import diagnose, observable
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


@pytest.mark.parametrize("both", [False, True])
def test_codes_by_the_siblings_scales_are_swapped(both: bool) -> None:
    """Computed ones, each kept where it is due: V's codes are made with K's, and K's with V's or rightly."""

    def run(memory: Memory) -> None:
        k, v = memory.read("k"), memory.read("v")
        scales = {"k": amax_scale(k), "v": amax_scale(v)}
        used = {"k": scales["v"] if both else scales["k"], "v": scales["k"]}
        for tensor, x in (("k", k), ("v", v)):
            codes = e4m3(np.asarray(x / used[tensor][:, :, None], np.float32))
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])
                memory.write(f"{tensor}_scales", slot, scales[tensor][token])

    emission = emulate(run, Case(tokens=3, heads=3, head_dim=64, dtype="fp32"))
    verdict = judge(emission)
    made = diagnose(emission, verdict)
    assert {(each.fault, each.tensor) for each in made} == {
        ("scale-swapped", "v"),
        *([("scale-swapped", "k")] if both else []),
    }
    assert all(each.explains == each.of for each in made)
    assert any("V's codes are those of K's scales" in each.says for each in made)
    # A kernel that has it would have failed this case, whatever this one stored.
    assert "scale-swapped" in observable(emission, verdict)
    right = emulate(case=Case(tokens=3, heads=3, head_dim=64, dtype="fp32"))
    assert "scale-swapped" in observable(right, judge(right))
    # Zeros are zeros by whatever scale: who has it of V alone would have passed.
    least = Contract(scale=Computed("token_head", eps=1e-10))
    hidden = emulate(case=Case(tokens=3, heads=3, head_dim=64, dtype="fp32", v_values="all_zero"), contract=least)
    assert "scale-swapped" not in observable(hidden, judge(hidden))


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
