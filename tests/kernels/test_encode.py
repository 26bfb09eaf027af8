"""kvcheck's encoder against the oracle: in the interpreter here, on every fp32 pattern there is on a GPU."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from kvcheck.draw import dtypes
from kvcheck.draw.dtypes import SourceDtype
from kvcheck.formats import digests, exact
from kvcheck.formats.decode import decode

ROOT = Path(__file__).parents[2]

Codes = npt.NDArray[np.uint8]
Patterns = npt.NDArray[np.uint32]


#: numpy, which the interpreter computes with, warns of signalling NaNs.
quiet = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")


def encoded(values: torch.Tensor) -> Codes:
    """The kernel's codes, in programs so large that a few do."""
    from kvcheck.kernels.sweep import encode  # noqa: PLC0415 - imports triton

    codes: Codes = encode(values, block=1 << 16).numpy()
    return codes


def floats(patterns: Patterns) -> torch.Tensor:
    """fp32 values of these bit patterns; numpy does not touch a NaN's payload."""
    return torch.from_numpy(patterns.view(np.float32))


def around_midpoints() -> Patterns:
    """From 2 ulp below to 2 above zero, every value, every middle between two, and what saturates; both signs."""
    grid = decode(np.arange(0x7F, dtype=np.uint8)).astype(np.float64)
    points = np.concatenate([grid, (grid[1:] + grid[:-1]) / 2, [464.0, 480.0, 65504.0, 3.4e38]]).astype(np.float32)
    near = points.view(np.uint32)[:, None].astype(np.int64) + np.arange(-2, 3)
    patterns = near.clip(0, 0x7F800000).astype(np.uint32).reshape(-1)
    return np.concatenate([patterns, patterns | np.uint32(1 << 31)])


@quiet
@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_every_16_bit_input_has_the_oracles_code(dtype: SourceDtype) -> None:
    """All 2^16 of bf16 and of fp16, NaNs and infinities of both signs included."""
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    kind = torch.bfloat16 if dtype == "bf16" else torch.float16
    codes = encoded(torch.from_numpy(every.view(np.int16)).view(kind))
    assert np.array_equal(codes, exact.encode(dtypes.to_float32(every, dtype)))


@pytest.mark.usefixtures("interpreter")
def test_midpoints_and_their_neighbours_have_the_oracles_code() -> None:
    """Where rounding is decided, two fp32 steps to either side."""
    patterns = around_midpoints()
    assert len(patterns) > 2500
    assert np.array_equal(encoded(floats(patterns)), exact.encode(patterns))


@quiet
@pytest.mark.usefixtures("interpreter")
def test_named_inputs_have_their_named_codes() -> None:
    """NaN of either sign and any payload is 0x7F, -0 is 0x80, 464 ties to 448, more saturates."""
    named = {
        0x7FC00000: 0x7F, 0xFFC00000: 0x7F, 0x7F800001: 0x7F, 0xFFFFFFFF: 0x7F,
        0x00000000: 0x00, 0x80000000: 0x80, 0x00000001: 0x00, 0x80000001: 0x80,
        0x43E00000: 0x7E, 0x43E80000: 0x7E, 0x43E80001: 0x7E, 0x7F800000: 0x7E, 0xFF800000: 0xFE,
        0x3A800000: 0x00, 0x3A800001: 0x01, 0x3B000000: 0x01, 0x3F800000: 0x38,
    }  # fmt: skip
    codes = encoded(floats(np.array(list(named), np.uint32)))
    assert codes.tolist() == list(named.values())


def on_gpu(arch: str | None) -> list[str]:
    """The digests of every block of 2^24 patterns, by a fresh process that compiles for a GPU."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TRITON")}
    if arch is not None:
        environment["TRITON_OVERRIDE_ARCH"] = arch
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *sys.path])
    command = [sys.executable, str(Path(__file__).with_name("sweep_on_gpu.py"))]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    digests: list[str] = json.loads(result.stdout)
    return digests


@pytest.mark.gpu
@pytest.mark.parametrize("arch", [None, "sm89", "sm80"])
def test_every_fp32_input_has_the_oracles_code_on_a_gpu(arch: str | None) -> None:
    """All 2^32 patterns, compiled for this GPU and as for sm_89 and sm_80; then all of bf16 and fp16."""
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    kinds: tuple[SourceDtype, ...] = ("bf16", "fp16")
    halves = [exact.encode(dtypes.to_float32(every, kind)).tobytes() for kind in kinds]
    kept = [*digests.kept(), *(hashlib.sha256(half).hexdigest()[:16] for half in halves)]
    assert on_gpu(arch) == kept
