"""Kernels written before any of them was run are named by what they do, with its numbers."""

from __future__ import annotations

import pytest

from .running import KERNELS, Results, run_file
from .unseen import NUMBERS, PLACES, Unseen

FILES = {"unseen_numbers": NUMBERS, "unseen_places": PLACES}
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
    """The first diagnosis is its fault, says what is wrong, and explains most of the bytes that it is held against."""
    (result,) = results[kernel.target]
    assert result.outcome in {"mismatch", "violation"}, result.reason
    first = result.diagnosis[0]
    assert (first.fault, kernel.words in first.says) == (kernel.fault, True), first.says
    # Rows with a negative slot are bytes of no tensor's: those of K and V are counted together.
    same = [each.explains for each in result.diagnosis if each.fault == first.fault == "negative-slot"]
    assert sum(same) + first.explains * (not same) >= 0.9 * first.of > 0
