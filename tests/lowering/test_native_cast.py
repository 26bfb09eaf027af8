"""The store with Triton's own cast, interpreted as archs' compilers would have it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvcheck.lowering.archs import installed, release

PROGRAM = Path(__file__).with_name("native_cast_codes.py")
CODES = 2 * 64 * 3 * 128

Found = dict[str, dict[str, int | list[int] | str]]


@pytest.fixture(scope="module")
def found() -> Found:
    """What the program printed."""
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: Found = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("scales", ["any", "powers"])
def test_on_sm_90_it_is_the_store(found: Found, dtype: str, scales: str) -> None:
    """Every code and every scale, NaN, -0 and subnormals included."""
    assert found[f"sm_90 {dtype} {scales}"] == {"of": CODES, "wrong": 0, "steps": [], "scales": 0}


@pytest.mark.skipif(release(installed()) >= (3, 9), reason="triton 3.9 casts for sm_89 in one step")
def test_on_sm_89_it_falls_a_step_short(found: Found) -> None:
    """Some 0.3 % of codes at scales that are no powers of two, all one step toward zero; the scales stay."""
    for dtype in ("bfloat16", "float32"):
        case = found[f"sm_89 {dtype} any"]
        assert isinstance(case["wrong"], int)
        assert 0.001 * CODES < case["wrong"] < 0.006 * CODES
        assert case["steps"] == [-1]
        assert case["scales"] == 0


def test_on_sm_89_powers_of_two_hide_it_for_bf16(found: Found) -> None:
    """A bf16 value over a power of two is an fp16 value, which two steps get right; it must not read as a pass."""
    assert found["sm_89 bfloat16 powers"]["wrong"] == 0


def test_on_sm_80_it_does_not_compile(found: Found) -> None:
    """The error has the compiler's words."""
    assert "fp8e4nv not supported in this architecture" in str(found["sm_80 bfloat16 any"]["error"])
