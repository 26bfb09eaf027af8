"""What a usual test would have said, beside the verdict and never part of it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from judge.emulate import Memory, amax_scale, e4m3, emulate, given_store, store
from kvcheck.contract import Contract, Given
from kvcheck.judge import judge
from kvcheck.schema import Case, Tolerance


def test_right_kernels_fail_a_usual_test_at_large_values() -> None:
    """K times 5 is right in every byte, and its absolute error is far beyond 0.08; relative to its amax it is not."""
    verdict = judge(emulate(case=Case(k_values="normal*5", v_values="normal*0.01")))
    assert verdict.outcome == "pass"
    k, v = verdict.tolerance.k, verdict.tolerance.v
    assert k.absolute is not None
    assert k.absolute > 0.5
    assert (k.absolute_pass, k.relative_pass, v.absolute_pass, v.relative_pass) == (False, True, True, True)
    assert k.relative is not None
    # Half of the largest step, 32, of 448.
    assert k.relative <= 16 / 448 + 1e-6


def test_the_figures_are_those_of_the_emitted_scale() -> None:
    """The largest error of launch 1, computed by hand in float64."""
    memories: list[Memory] = []

    def kernel(memory: Memory) -> None:
        memories.append(memory)
        store(memory)

    verdict = judge(emulate(kernel))
    x = memories[0].read("v").astype(np.float64)
    scale = amax_scale(memories[0].read("v"))
    codes = e4m3(memories[0].read("v") / scale[:, :, None])
    values = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float64) * scale[:, :, None].astype(np.float64)
    error = np.abs(values - x)
    assert verdict.tolerance.v.absolute == error.max()
    assert verdict.tolerance.v.relative == (error.max(axis=2) / np.abs(x).max(axis=2)).max()


@pytest.mark.parametrize("values", ["nan", "inf"])
def test_what_is_not_finite_has_no_figure(values: str) -> None:
    """NaN and infinities have no error: both figures and both answers are null, for that tensor alone."""
    verdict = judge(emulate(case=Case(v_values=values)))
    assert verdict.outcome == "pass"
    assert verdict.tolerance.v == Tolerance()
    assert verdict.tolerance.k.absolute is not None


def test_a_row_of_zeros_has_no_relative_error_unless_it_is_wrong() -> None:
    """Zeros stored as zeros are left out of the relative figure; a code in such a row makes it null."""
    contract = Contract(scale=Given("tensor"))
    case = Case(k_values="all_zero")
    right = judge(emulate(given_store(2**-3, 2**-4), case, contract))
    assert right.tolerance.k == Tolerance(0.0, absolute_pass=True, relative=0.0, relative_pass=True)

    def kernel(memory: Memory) -> None:
        given_store(2**-3, 2**-4)(memory)
        row = memory.row("k_codes", int(memory.slots[0]))
        row[0] = 0x38
        memory.write("k_codes", int(memory.slots[0]), row)

    wrong = judge(emulate(kernel, case, contract))
    assert wrong.tolerance.k == Tolerance(2**-3, absolute_pass=False, relative=None, relative_pass=None)


def test_a_multiplier_is_divided_by() -> None:
    """Where the kernel multiplies with its scale, dequantising divides: the error stays small."""
    contract = Contract(scale=Given("tensor", direction="multiplier"))
    kernel = given_store(2**-4, 2**-3)  # dividing by 2^-4 is multiplying with 16
    verdict = judge(emulate(kernel, Case(k_scale="2^4", v_scale="2^4"), contract))
    assert verdict.outcome == "pass"
    assert verdict.tolerance.k.absolute is not None
    assert verdict.tolerance.k.absolute < 0.2
