"""Kernels written before any of them was run are named by what they do, with its numbers."""

from __future__ import annotations

import pytest

from .running import KERNELS, Results, run_file
from .unseen import NUMBERS, Unseen

FILES = {"unseen_numbers": NUMBERS}
KERNELS_RUN = [each for kernels in FILES.values() for each in kernels]


@pytest.fixture(scope="module")
def results() -> Results:
    """Every kernel over its own case, one process a file."""
    found: Results = {}
    for file, kernels in FILES.items():
        found |= run_file(KERNELS / f"{file}.py", {each.target: (each.case,) for each in kernels})
    return found


@pytest.mark.parametrize(
    "kernel", [each for kernels in FILES.values() for each in kernels], ids=lambda each: each.target
)
def test_an_unseen_kernel_is_named(kernel: Unseen, results: Results) -> None:
    """The first diagnosis is its fault, says what is wrong, and explains most of one tensor's wrong bytes."""
    (result,) = results[kernel.target]
    assert result.outcome in {"mismatch", "violation"}, result.reason
    first = result.diagnosis[0]
    assert (first.fault, kernel.words in first.says) == (kernel.fault, True), first.says
    assert first.explains >= 0.9 * first.of > 0
