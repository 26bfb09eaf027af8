"""Kernels written before any of them was run are named by what they do, with its numbers."""

from __future__ import annotations

import pytest

from kvcheck.schema import Case

from .engines import ENGINES, LATENT, SOUND
from .running import Results, run_files
from .unseen import NUMBERS, PLACES, PROJECTED, Unseen

FILES = {"unseen_numbers": NUMBERS, "unseen_places": PLACES, **ENGINES}
KERNELS_RUN = [each for kernels in FILES.values() for each in kernels]


@pytest.fixture(scope="module")
def results() -> Results:
    """Every kernel over its own case."""
    cases: dict[str, tuple[Case, ...]] = {each.target: (each.case,) for each in KERNELS_RUN}
    for right in SOUND.values():
        cases |= dict.fromkeys(right, (PROJECTED, LATENT))
    return run_files(FILES, cases)


@pytest.mark.parametrize(
    "kernel", [each for kernels in FILES.values() for each in kernels], ids=lambda each: each.target
)
def test_an_unseen_kernel_is_named(kernel: Unseen, results: Results) -> None:
    """The first diagnosis is its fault, says what is wrong, and explains most of the bytes that it is held against."""
    (result,) = results[kernel.target]
    assert result.outcome in {"mismatch", "violation"}, result.reason
    first = result.diagnosis[0]
    assert (first.fault, kernel.words in first.says) == (kernel.fault, True), first.says
    # Rows with a negative slot, and strays, are bytes of no tensor's: those of K and V are counted together.
    nobodys = first.fault in {"negative-slot", "stray-write"}
    same = [each.explains for each in result.diagnosis if each.fault == first.fault and nobodys]
    assert sum(same) + first.explains * (not same) >= 0.9 * first.of > 0


@pytest.mark.parametrize("target", [target for targets in SOUND.values() for target in targets])
def test_a_right_kernel_of_the_same_file_passes(target: str, results: Results) -> None:
    """So that what is named of the others is their fault, and not the file's."""
    outcomes = {each.outcome for each in results[target]}
    assert outcomes in ({"pass"}, {"pass", "unsupported"})
    assert not any(each.diagnosis for each in results[target])
