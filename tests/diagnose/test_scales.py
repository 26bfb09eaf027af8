"""Faults of scales: named by the scales and codes that they leave, with what was recovered of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from judge.emulate import Kernel, Memory, amax_scale, emulate, store

from kvcheck.diagnose import diagnose
from kvcheck.formats import bits
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis

Floats = npt.NDArray[np.float32]
#: Rows → the scales that are kept `[tokens, heads]`, and the scaled values.
Rule = Callable[[Floats], tuple[Floats, Floats]]


def kernel(rule: Rule, tensors: str = "kv") -> Kernel:
    """A store with another scale, or another use of it, for K, V or both."""

    def run(memory: Memory) -> None:
        store(memory)
        for tensor in tensors:
            with np.errstate(invalid="ignore", divide="ignore"):
                kept, scaled = rule(memory.read(tensor))
                codes = bits.encode(scaled.astype(np.float32))
            for token, slot in enumerate(memory.slots):
                memory.write(f"{tensor}_codes", int(slot), codes[token])
                memory.write(f"{tensor}_scales", int(slot), kept[token].astype(np.float32))

    return run


def maximum(limit: float) -> Rule:
    """Scales of another largest value."""

    def rule(x: Floats) -> tuple[Floats, Floats]:
        scale = (np.abs(x).max(2) / np.float32(limit)).astype(np.float32)
        return scale, (x / scale[:, :, None]).astype(np.float32)

    return rule


def first_half(x: Floats) -> tuple[Floats, Floats]:
    """Scales of each row's first half."""
    scale = amax_scale(x[:, :, : x.shape[2] // 2])
    return scale, x / scale[:, :, None]


def unapplied(x: Floats) -> tuple[Floats, Floats]:
    """Scales that are kept and not used."""
    return amax_scale(x), x


def kept_fp16(x: Floats) -> tuple[Floats, Floats]:
    """Scales that are rounded when they are kept."""
    scale = amax_scale(x)
    return scale.astype(np.float16).astype(np.float32), x / scale[:, :, None]


def found(rule: Rule, tensors: str = "kv", case: Case | None = None) -> tuple[Diagnosis, ...]:
    """Emulate, judge, diagnose."""
    emission = emulate(kernel(rule, tensors), case or Case())
    return diagnose(emission, judge(emission))


@pytest.mark.parametrize("limit", [240.0, 440.0, 192.0, 127.0])
def test_a_wrong_largest_value_is_recovered(limit: float) -> None:
    """Any constant is named, not one of a list."""
    made = found(maximum(limit))
    assert [(each.fault, each.evidence["maximum"]) for each in made] == [("wrong-max", limit)] * 2
    assert all(each.explains == each.of > 0 for each in made)


@pytest.mark.parametrize(
    ("rule", "fault"),
    [(first_half, "amax-population"), (unapplied, "scale-misapplied"), (kept_fp16, "scale-rounded")],
)
@pytest.mark.parametrize("tensor", ["k", "v"])
def test_a_rule_is_named_for_the_tensor_that_has_it(rule: Rule, fault: str, tensor: str) -> None:
    """The other tensor, which is right, is left out."""
    assert [(each.fault, each.tensor) for each in found(rule, tensor)] == [(fault, tensor)]


def test_scales_of_no_rule_are_not_named() -> None:
    """A scale with noise in it follows from none, and right bytes have no fault."""

    def noisy(x: Floats) -> tuple[Floats, Floats]:
        scale: Floats = amax_scale(x) * (1 + np.arange(x.shape[1], dtype=np.float32) / np.float32(7))
        return scale, (x / scale[:, :, None]).astype(np.float32)

    assert not {each.fault for each in found(noisy)} & {"wrong-max", "amax-population", "scale-rounded"}
    right = emulate(store, Case())
    assert diagnose(right, judge(right)) == ()
