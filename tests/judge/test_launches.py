"""Channels 4 and 5: what the kernel must not read does not matter; equal launches leave equal bytes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from judge.emulate import COMPUTED, Memory, amax_scale, emulate, store
from kvcheck.contract import Computed
from kvcheck.judge import judge
from kvcheck.schema import Case, Verdict

#: A contract under which a scale may move by an ulp: bytes may differ and none be wrong.
LOOSE = msgspec.structs.replace(COMPUTED, scale=Computed("token_head", derive="divide_approx"), apply="divide_approx")


def nudged(when: Callable[[Memory], bool]) -> Callable[[Memory], None]:
    """Return a kernel that stores one scale an ulp too large, legally, when something says so."""

    def kernel(memory: Memory) -> None:
        store(memory)
        if when(memory):
            scale = amax_scale(memory.read("k"))[1]
            scale[2] = np.nextafter(scale[2], np.float32(np.inf))
            memory.write("k_scales", int(memory.slots[1]), scale)

    return kernel


def judged(when: Callable[[Memory], bool], launches: int, layout: str = "arena") -> Verdict:
    """Judge an emission of that kernel under the loose contract."""
    return judge(emulate(nudged(when), Case(layout=layout), LOOSE, launches=launches))


def moved_bytes() -> int:
    """Count the bytes in which the scale and its neighbour differ."""
    verdicts = emulate(nudged(lambda memory: memory.launch == 2), contract=LOOSE)
    first, second = (np.frombuffer(launch.rows["k_scales"], np.uint8) for launch in verdicts.launches[:2])
    return int((first != second).sum())


def test_bytes_that_follow_poison_violate_independence() -> None:
    """Launch 2, with its own poison and prefill, differs in a legal scale: no mismatch, and a violation."""
    verdict = judged(lambda memory: memory.launch == 2, 3)
    assert (verdict.outcome, verdict.scales.wrong, verdict.codes.wrong_any_launch) == ("violation", 0, 0)
    assert verdict.independence.differs == moved_bytes() > 0
    assert verdict.determinism.values_drift == 0
    assert "depend on memory that the kernel must not read" in verdict.reason


def test_without_poison_independence_is_not_judged() -> None:
    """The same bytes in a layout without poison say nothing: null with its reason, and a pass."""
    verdict = judged(lambda memory: memory.launch == 2, 3, "pooled")
    assert (verdict.outcome, verdict.independence.differs) == ("pass", None)
    assert verdict.independence.reason == "layout pooled has no poison"


@pytest.mark.parametrize("layout", ["arena", "pooled"])
def test_a_kernel_that_reads_the_cache_violates_independence(layout: str) -> None:
    """Launch 3 differs with the prefill alone and a repeat of launch 1 does not: whatever the layout."""
    verdict = judged(lambda memory: memory.launch == 3, 4, layout)
    assert (verdict.outcome, verdict.independence.differs) == ("violation", moved_bytes())
    assert (verdict.determinism.launches, verdict.determinism.values_drift) == (4, 0)


def test_a_kernel_that_differs_from_itself_is_not_deterministic() -> None:
    """A repeat of launch 1 differs from it: then independence cannot be judged."""
    verdict = judged(lambda memory: memory.launch > 2, 4)
    assert (verdict.outcome, verdict.determinism.values_drift) == ("violation", moved_bytes())
    assert verdict.independence == type(verdict.independence)(None, "the kernel is not deterministic")
    assert "differ between equal launches" in verdict.reason


def test_a_missing_repeat_is_inconclusive() -> None:
    """Launches 1 and 3 differ and nobody repeated launch 1: unclear, so no pass."""
    verdict = judged(lambda memory: memory.launch == 3, 3)
    assert (verdict.outcome, verdict.reason) == ("inconclusive", "launches 1 and 3 differ, and no fourth was made")


def test_wrong_values_that_drift_are_counted_though_condemned() -> None:
    """Positions stay, values drift: a code wrong in every launch, another way in the fourth."""

    def kernel(memory: Memory) -> None:
        store(memory)
        row = memory.row("v_codes", int(memory.slots[0]))
        row[0] ^= np.uint8(1 if memory.launch < 3 else 2)
        memory.write("v_codes", int(memory.slots[0]), row)

    verdict = judge(emulate(kernel, launches=4))
    assert (verdict.outcome, verdict.codes.wrong, verdict.codes.wrong_any_launch) == ("mismatch", 1, 1)
    assert (verdict.determinism.positions_drift, verdict.determinism.values_drift) == (0, 1)
    # The only byte that moved is a wrong one: independence has nothing left to say of it.
    assert verdict.independence.differs == 0


def test_a_wrong_scale_drifts_by_its_bytes() -> None:
    """A scale wrong in one launch only is four bytes whose positions drift, and condemns them for independence."""

    def kernel(memory: Memory) -> None:
        store(memory)
        if memory.launch == 2:
            scale = amax_scale(memory.read("k"))[0]
            scale[0] *= np.float32(4)
            memory.write("k_scales", int(memory.slots[0]), scale)

    verdict = judge(emulate(kernel))
    assert (verdict.outcome, verdict.scales.wrong, verdict.scales.wrong_any_launch) == ("mismatch", 0, 1)
    assert (verdict.determinism.positions_drift, verdict.independence.differs) == (4, 0)
    assert verdict.reason == "1 scales wrong in a later launch, none in the first"


@pytest.mark.parametrize("redrawn", ["k", "v"])
def test_a_right_kernel_keeps_the_siblings_bytes(redrawn: str) -> None:
    """K redrawn alone moves K's bytes, not V's; without poison that is all that independence says, and it is said."""
    verdict = judge(emulate(case=Case(cross=redrawn)))
    assert (verdict.outcome, verdict.independence.differs, verdict.independence.reason) == ("pass", 0, "")
    bare = judge(emulate(case=Case(cross=redrawn, layout="pooled")))
    assert (bare.outcome, bare.independence.differs) == ("pass", 0)
    assert bare.independence.reason == "of the sibling's values alone; layout pooled has no poison"


def test_a_legal_scale_that_follows_the_redrawn_sibling_violates_independence() -> None:
    """One of K's scales moves by an allowed ulp when V alone is redrawn: launch 4, K's byte."""

    def kernel(memory: Memory) -> None:
        store(memory)
        if memory.launch == 4:
            scale = amax_scale(memory.read("k"))[1]
            scale[2] = np.nextafter(scale[2], np.float32(np.inf))
            memory.write("k_scales", int(memory.slots[1]), scale)

    verdict = judge(emulate(kernel, Case(cross="v", layout="pooled"), LOOSE))
    assert (verdict.outcome, verdict.independence.v_differs) == ("violation", 0)
    assert verdict.independence.k_differs == verdict.independence.differs
    first = verdict.independence.first
    assert first is not None
    assert (first.tensor, first.token, first.head, first.launch) == ("k_scales", 1, 2, 4)


def test_a_crossed_launch_that_the_case_does_not_have_is_inconclusive() -> None:
    """And one that it has and that is missing."""
    emission = emulate(case=Case(cross="v"))
    plain = msgspec.structs.replace(emission, launches=emission.launches[:3])
    assert judge(plain).reason == "launches with [] redrawn; the case says cross=v"
    other = msgspec.structs.replace(emission, case=Case())
    assert judge(other).reason == "launches with ['v'] redrawn; the case says cross=none"
