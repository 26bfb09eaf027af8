"""The whole sweep on a GPU: what `kvcheck encode` says there of every encoder, arch and dtype."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from kvcheck.encode.facts import EncodeReport, EncoderResult
from kvcheck.lowering.archs import cast_model

from .running import encode

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent
#: Of 2^32 inputs, NaNs apart, those whose code a cast through truncated fp16 gets wrong.
WRONG_VIA_FP16 = 1_032_066


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> EncodeReport:
    """All built-in encoders on all archs."""
    out = tmp_path_factory.mktemp("encode")
    encode("--device", "cuda", "--out", str(out))
    return msgspec.json.decode((out / "encode.json").read_bytes(), type=EncodeReport)


def of(report: EncodeReport, encoder: str) -> list[EncoderResult]:
    """The results of one encoder for fp32."""
    return [result for result in report.results if (result.encoder, result.dtype) == (encoder, "fp32")]


def test_the_software_encoder_is_right_for_every_input(report: EncodeReport) -> None:
    """-0 and NaN included, under every lowering, by its digests too."""
    found = of(report, "software")
    assert len(found) >= 4
    for result in found:
        assert (result.outcome, result.coverage, result.inputs) == ("pass", "every", 1 << 32), result
        assert result.digests == 256


def test_triton_casts_as_the_models_say(report: EncodeReport) -> None:
    """sm_90 and its successors are right; a lowering through fp16 is named with all that it gets wrong."""
    for result in of(report, "triton-cast"):
        if result.outcome == "unsupported":
            assert "cannot run the lowering" in result.reason
            continue
        assert (result.coverage, result.inputs) == ("every", 1 << 32), result
        assert "software encoder" in result.reference
        if cast_model(result.arch).fp32 == "via_fp16_rtz":
            assert result.differ == WRONG_VIA_FP16
            assert [(each.fault, each.explains) for each in result.faults] == [("double-rounding-fp16", WRONG_VIA_FP16)]
            assert {each.kind for each in result.differences} == {"rounding", "subnormal"}
        else:
            assert (result.outcome, result.differ) == ("pass", 0), result


def test_bf16_and_fp16_sources_are_right(report: EncodeReport) -> None:
    """Every one of their inputs, from Triton and from kvcheck."""
    found = [each for each in report.results if each.dtype != "fp32" and each.encoder in ("triton-cast", "software")]
    assert found
    assert all((each.outcome, each.inputs) == ("pass", 1 << 16) for each in found if each.outcome != "unsupported")


def test_a_scrambled_encoder_is_counted_and_gets_no_name(tmp_path: Path) -> None:
    """More runs than leave the GPU; no rule is made up for it."""
    spec = f"{HERE / 'targets.py'}::scrambled"
    assert encode("--target", spec, "--device", "cuda", "--arch", own(), "--out", str(tmp_path)).returncode == 1
    (result,) = (
        each
        for each in msgspec.json.decode((tmp_path / "encode.json").read_bytes(), type=EncodeReport).results
        if each.dtype == "fp32"
    )
    assert result.inputs == 1 << 32
    assert result.differ > 4_200_000_000
    assert sum(each.explains for each in result.faults if each.fault is None) > 4_000_000_000


def own() -> str:
    """This GPU's arch."""
    import torch  # noqa: PLC0415 - slow

    major, minor = torch.cuda.get_device_capability(0)
    return f"sm_{major}{minor}"


def test_the_benchmark_of_a_sweep_runs_and_both_ways_to_count_agree() -> None:
    """Natively: in the interpreter, which the tests ask for, it would not end."""
    program = HERE.parents[1] / "benchmarks" / "encode.py"
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, str(program), "3"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "[(0, 0)]" in done.stdout
