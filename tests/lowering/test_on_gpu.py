"""The models of archs against their lowerings on a GPU: every fp32, bf16 and fp16 input, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvcheck.formats.digests import kept
from kvcheck.lowering.archs import cast_model, installed, release
from kvcheck.lowering.doctor import measured
from kvcheck.lowering.machine import GpuFacts
from kvcheck.lowering.sweep import digest, half_patterns, model_codes

from .test_sweep import NEAREST, VIA_FP16

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent


def ran(program: str, *arguments: str, arch: str | None = None) -> str:
    """What a program of this folder prints, its kernels lowered for this GPU or for another arch (`sm89`)."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TRITON")}
    if arch is not None:
        environment["TRITON_OVERRIDE_ARCH"] = arch
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[1]), *sys.path])
    command = [sys.executable, str(HERE / program), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("arch", [None, "sm89", "sm90", "sm100", "sm120"])
def test_the_lowering_is_the_model_on_every_input(arch: str | None) -> None:
    """All 2^32 fp32 patterns have the kept digests of the model's rounding; all of bf16 and fp16 the model's codes."""
    name = "sm_90" if arch is None else arch.replace("sm", "sm_")
    rounding = cast_model(name).fp32
    file = VIA_FP16 if rounding == "via_fp16_rtz" else NEAREST
    halves = [digest(model_codes(name, half_patterns(source), source))[:16] for source in ("bf16", "fp16")]
    assert json.loads(ran("cast_on_gpu.py", arch=arch)) == [*kept(file), *halves]


def test_libdevice_is_its_models() -> None:
    """2^24 pairs of operands, all pairs of the edges among them, through every function that is modelled."""
    found = json.loads(ran("libdevice_on_gpu.py"))
    assert len(found) > 30
    assert {name: differ for name, differ in found.items() if differ[0]} == {}


def test_native_cast_is_the_store_on_this_gpu() -> None:
    """Where this GPU casts in one step, every code agrees."""
    for case in json.loads(ran("native_cast_codes.py", "cuda")).values():
        assert (case["wrong"], case["scales"]) == (0, 0), case


@pytest.mark.skipif(release(installed()) >= (3, 9), reason="triton 3.9 casts for sm_89 in one step")
def test_native_cast_lowered_for_sm_89_falls_a_step_short() -> None:
    """The same codes differ as in the interpreter with sm_89's model: the same number, all one step toward zero."""
    lowered = json.loads(ran("native_cast_codes.py", "cuda", arch="sm89"))
    interpreted = json.loads(ran("native_cast_codes.py"))
    for dtype in ("bfloat16", "float32"):
        for scales in ("any", "powers"):
            assert lowered[f"native {dtype} {scales}"] == interpreted[f"sm_89 {dtype} {scales}"]
    assert lowered["native bfloat16 any"]["wrong"] > 0


def test_doctor_measures_this_gpu() -> None:
    """Nothing is left out; the cast is the model's, and division is within 2 ulp."""
    facts = measured("gpu", GpuFacts)
    assert facts.name
    assert facts.arch
    assert facts.casts_differ == 0, facts.errors
    assert facts.ratio == 1
    assert facts.division_ulps is not None
    assert facts.division_ulps <= 2
    assert facts.constant_differs is not None
    assert facts.torch_cast is not None
    assert facts.torch_cast[0] == 0x7E
    assert facts.clamp is not None
    assert not set(facts.errors) - {"virtual_memory", "driver"}, facts.errors


def test_clamped_nan_is_as_the_ptx_says() -> None:
    """sm_90 clamps with min.xorsign.abs, which gives the bound with the sign of NaN."""
    facts = measured("gpu", GpuFacts)
    if facts.arch not in ("sm_90", "sm_100", "sm_120"):
        pytest.skip(f"{facts.arch} clamps in another way")
    assert facts.clamp is not None
    assert facts.clamp == (448.0, -448.0)
