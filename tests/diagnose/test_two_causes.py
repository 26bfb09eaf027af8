"""Two faults of scales at once: both are named."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from judge.emulate import COMPUTED, Memory, amax_scale, emulate, store

from kvcheck.diagnose import diagnose
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.rounded_populations import of_a_population_rounded
from kvcheck.formats import bits
from kvcheck.judge import judge
from kvcheck.schema import Case

from .test_scale_forms import named
from .test_scales import Floats, kernel


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize(
    ("narrow", "words"),
    [
        (lambda scale: scale.astype(np.float16).astype(np.float32), "rounded to fp16"),
        (lambda scale: (scale.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32), "cut to bf16"),
    ],
)
def test_another_population_that_is_rounded_as_well_is_two_faults(
    narrow: Callable[[Floats], Floats], words: str, used: bool
) -> None:
    """Each explains all, and neither without the other."""

    def rule(x: Floats) -> tuple[Floats, Floats]:
        scale = amax_scale(x)
        whole = np.ascontiguousarray(np.broadcast_to(scale.max(axis=1, keepdims=True), scale.shape))
        kept = np.asarray(narrow(whole), np.float32)
        return kept, np.asarray(x / (kept if used else whole)[:, :, None], np.float32)

    made = named(rule, tensors="v")
    assert [each.fault for each in made] == ["amax-population", "scale-rounded"]
    assert f"the whole token, and {words} when they are kept" in made[0].says
    assert f"V's scales are {words} when they are kept" in made[1].says
    assert all(each.explains == each.of > 0 for each in made)


def test_a_wrong_maximum_and_a_wrong_rounding_are_both_named() -> None:
    """The scales tell of the one, the codes by them of the other."""

    def run(memory: Memory) -> None:
        store(memory)
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = np.asarray(np.abs(x).max(axis=2) / np.float32(240), np.float32)
            codes = bits.encode(np.asarray(x / scale[:, :, None], np.float32), rounding="rtz")
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])
                memory.write(f"{tensor}_scales", slot, scale[token])

    emission = emulate(run, Case())
    found = diagnose(emission, judge(emission))
    assert {each.fault for each in found} == {"wrong-max", "rounding-mode"}
    assert {each.tensor for each in found} == {"k", "v"}
    assert any("its codes are not all theirs" in each.says for each in found)


def test_scales_that_are_narrow_anyhow_were_not_rounded() -> None:
    """K's scales are 1, which V has too: that is another amax, and no rounding of one."""

    def ones(x: Floats) -> tuple[Floats, Floats]:
        return np.ones(x.shape[:2], np.float32), x

    emission = emulate(kernel(ones, "v"), Case(tokens=4, dtype="fp32", k_values="midpoints"))
    facts = Facts(emission, COMPUTED, judge(emission))
    assert (facts.own("k").scale == 1).all()
    assert of_a_population_rounded(facts, "v", facts.emitted("v")) is None
    assert "amax-population" in {each.fault for each in diagnose(emission, judge(emission))}
