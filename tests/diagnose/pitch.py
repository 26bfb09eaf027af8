"""Kernels that read V with K's pitch, emulated, and the case that started it."""

from __future__ import annotations

from judge.emulate import Memory, store

from kvcheck.diagnose import diagnose
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis, Emission

#: The case that started it: K is a slice of a qkv tensor, V is dense; K is large and V is small.
SEED = Case(k_view="qkv", v_view="dense", k_values="normal*5", v_values="normal*0.01")


def with_k_pitch(memory: Memory) -> None:
    """Read V with K's token pitch."""
    own = memory.placement.get("v").strides
    store(memory, {"v": (memory.placement.get("k").strides[0], *own[1:])})


def with_k_strides(memory: Memory) -> None:
    """Read V with all of K's strides."""
    store(memory, {"v": memory.placement.get("k").strides})


def diagnosed(emission: Emission) -> tuple[Diagnosis, ...]:
    """Judge, then diagnose."""
    return diagnose(emission, judge(emission))
