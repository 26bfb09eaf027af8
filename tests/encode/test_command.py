"""`kvcheck encode` as a user runs it, on the CPU."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvcheck.cli.main import run
from kvcheck.encode.facts import EncodeReport, EncoderResult
from kvcheck.lowering.archs import installed, release

from .running import encode

TARGETS = Path(__file__).with_name("targets.py")
HOST = TARGETS.with_name("host_targets.py")
TWO_STEPS = release(installed()) < (3, 9)

FOUR = """
import os
import signal
import time
from kvcheck import EncoderContract, encoder_target

HALF = EncoderContract(dtypes=("bf16",))

@encoder_target("dies", contract=HALF)
def dies(x, out):
    os.write(2, b"LLVM ERROR: out of ideas\\n")
    os.abort()

@encoder_target("raises", contract=HALF)
def raises(x, out):
    raise RuntimeError("no encoder here")

@encoder_target("passes", contract=EncoderContract(dtypes=("bf16",), nan="undefined"))
def passes(x, out):
    import torch
    out.copy_(x.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8))

@encoder_target("kills", contract=HALF)
def kills(x, out):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
"""


def report(out: Path) -> EncodeReport:
    """What a run wrote."""
    return msgspec.json.decode((out / "encode.json").read_bytes(), type=EncodeReport)


def by_name(found: EncodeReport) -> dict[str, EncoderResult]:
    """Its results by encoder, of which each has one."""
    names = {result.encoder: result for result in found.results}
    assert len(names) == len(found.results)
    return names


def test_triton_casts_are_named_for_their_arch(tmp_path: Path) -> None:
    """sm_89's double rounding and sm_90's none, by the interpreter and by the model, from a sample that says so."""
    arguments = ("--encoder", "triton-cast", "--encoder", "model", "--arch", "sm_89", "--arch", "sm_90")
    done = encode(*arguments, "--dtype", "fp32", "--device", "cpu", "--out", str(tmp_path))
    assert done.returncode == int(TWO_STEPS), done.stderr
    assert "Traceback" not in done.stderr
    for result in report(tmp_path).results:
        assert result.coverage == "sample"
        assert result.inputs < 4_000_000 < result.possible == 1 << 32
        assert result.execution == ("interpreted" if result.encoder == "triton-cast" else "host")
        faults = [(each.fault, each.explains) for each in result.faults]
        wrong = TWO_STEPS and result.arch == "sm_89"
        assert faults == ([("double-rounding-fp16", result.differ)] if wrong else [])
        assert (result.differ > 0) == wrong
    assert "a sample of 4 294 967 296" in done.stdout
    assert "all 4 294 967 296" not in done.stdout
    text = (tmp_path / "encode.md").read_text()
    assert "`--exhaustive` runs every one" in text
    assert ("double-rounding-fp16" in text) == TWO_STEPS


def test_halves_are_every_input(tmp_path: Path) -> None:
    """All 2^16 of bf16 and fp16, right from kvcheck's encoder; exit 0."""
    arguments = ("--encoder", "software", "--dtype", "bf16", "--dtype", "fp16")
    done = encode(*arguments, "--device", "cpu", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout
    found = report(tmp_path).results
    assert [(each.dtype, each.coverage, each.inputs) for each in found] == [
        ("bf16", "every", 1 << 16),
        ("fp16", "every", 1 << 16),
    ]
    assert "0 codes differ of all 65 536 inputs" in done.stdout


def test_targets_are_held_against_what_they_declare(tmp_path: Path) -> None:
    """Int8 is right, truncated int8 is named, and what is undefined is left out."""
    done = encode("--target", str(HOST), "--device", "cpu", "--out", str(tmp_path))
    assert done.returncode == 1, done.stderr
    found = by_name(report(tmp_path))
    assert {result.execution for result in found.values()} == {"host"}
    assert found["int8"].outcome == "pass"
    assert found["int8"].declared.format == "int8"
    assert [each.fault for each in found["int8-truncated"].faults] == ["rounding-mode"]
    clamps = found["clamps-first"]
    assert clamps.outcome == "pass"
    assert (clamps.declared.overflow, clamps.declared.nan) == ("undefined", "undefined")
    assert clamps.inputs < found["int8"].inputs


def test_several_faults_are_told_apart(tmp_path: Path) -> None:
    """A Triton encoder with four: each has its name and its count, and together they are all."""
    done = encode("--target", f"{TARGETS}::away", "--dtype", "bf16", "--device", "cpu", "--out", str(tmp_path))
    assert done.returncode == 1, done.stderr
    (result,) = report(tmp_path).results
    assert {each.fault for each in result.faults} == {
        "rounding-mode",
        "subnormal-flush",
        "nan-laundered",
        "negative-zero",
    }
    assert sum(each.explains for each in result.faults) == result.differ
    assert {each.kind for each in result.differences} == {"rounding", "subnormal", "nan", "negative_zero"}


def test_an_encoder_that_raises_or_dies_is_a_crash(tmp_path: Path) -> None:
    """With its own words; the others of its file run all the same, alone. One kills its parent, and ends no run."""
    file = tmp_path / "four.py"
    file.write_text(FOUR)
    done = encode("--target", str(file), "--dtype", "bf16", "--device", "cpu", "--out", str(tmp_path))
    assert done.returncode == 1
    found = by_name(report(tmp_path))
    dies, raises, passes = (found[name] for name in ("dies", "raises", "passes"))
    assert passes.outcome == "pass"
    assert (dies.outcome, dies.coverage) == ("crash", "none")
    assert "LLVM ERROR: out of ideas" in dies.reason
    assert raises.outcome == "crash"
    assert raises.reason.strip().endswith("RuntimeError: no encoder here")
    assert "four.py" in raises.reason
    assert 'raise RuntimeError("no encoder here")' in done.stdout
    assert found["kills"].outcome == "crash"
    assert "ended with status -9" in found["kills"].reason


def test_a_cast_that_does_not_compile_is_a_compile_failure(tmp_path: Path) -> None:
    """A target's is a failure; Triton's own cast is unsupported there, and nothing is compared: exit 4."""
    spec = ("--target", f"{TARGETS}::native-e4m3", "--arch", "sm_80", "--device", "cpu")
    assert encode(*spec, "--out", str(tmp_path / "target")).returncode == 1
    (result,) = report(tmp_path / "target").results
    assert [each.fault for each in result.faults] == ["compile-failure"]
    assert "type fp8e4nv not supported" in result.reason
    own = ("--encoder", "triton-cast", "--dtype", "bf16", "--arch", "sm_80", "--device", "cpu")
    assert encode(*own, "--out", str(tmp_path / "own")).returncode == 4
    (result,) = report(tmp_path / "own").results
    assert result.outcome == "unsupported"
    assert "type fp8e4nv not supported" in result.reason


def test_native_is_required_where_it_is_asked_for(tmp_path: Path) -> None:
    """Nothing on a CPU is a GPU's."""
    arguments = ("--encoder", "software", "--dtype", "bf16", "--device", "cpu", "--require-native")
    assert encode(*arguments, "--out", str(tmp_path)).returncode == 3


def test_a_slow_process_is_a_timeout(tmp_path: Path) -> None:
    """Killed, and said."""
    arguments = ("--encoder", "software", "--device", "cpu", "--timeout", "0.05")
    assert encode(*arguments, "--out", str(tmp_path)).returncode == 1
    assert {each.outcome for each in report(tmp_path).results} == {"timeout"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--encoder", "mine"), "--encoder: 'mine' is not accepted"),
        (("--dtype", "fp8"), "--dtype: 'fp8' is not accepted"),
        (("--device", "tpu"), "--device: 'tpu' is not accepted"),
        (("--arch", "sm_87", "--device", "cpu"), "arch 'sm_87' is not known"),
        (("--timeout", "0"), "--timeout: 0.0 is not accepted"),
        (("--target", "store"), "expected FILE.py[::NAME]"),
        (("--target", "no-such.py"), "there is no file no-such.py"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, before anything runs."""
    assert run(["encode", *arguments, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_files_without_encoders_are_one_line(tmp_path: Path) -> None:
    """The file, and what was expected in it."""
    file = tmp_path / "none.py"
    file.write_text("import kvcheck\n")
    done = encode("--target", str(file), "--device", "cpu", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "declares no encoder" in done.stderr
    wrong = encode("--target", f"{HOST}::int4", "--device", "cpu", "--out", str(tmp_path))
    assert wrong.returncode == 2
    assert "has no encoder 'int4'; it has int8, int8-truncated, clamps-first" in wrong.stderr
