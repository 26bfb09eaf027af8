"""What `doctor` says of machines: of data written down, and of helpers that fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from kvcheck.lowering import doctor, measure_gpu, software
from kvcheck.lowering.attempts import Attempts
from kvcheck.lowering.doctor import measured
from kvcheck.lowering.doctor_says import Machine, findings
from kvcheck.lowering.machine import CompilerFacts, CpuFacts, GpuFacts, Software

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
SOFTWARE = Software(
    "3.11.7", "Linux x86_64", "0.1.0", "2.11.0", "3.6.0", "2.4.6", "13.0.3", "2025.3.1", "/opt/compute-sanitizer"
)
CPU = CpuFacts(
    torch_cast=(0x7E, 0x7E, 0x7E, 0x7F), ratio=1.0, raw_casts_wrong=30, raw_casts=128, raw_bf16_wrong=5, raw_bf16=8,
    corrected=dict.fromkeys(ARCHS), clamp=(None, None),
)  # fmt: skip
COMPILER = CompilerFacts(
    casts={
        **dict.fromkeys(ARCHS[:3], "failed"), "sm_89": "via_fp16_rtz", **dict.fromkeys(ARCHS[4:], "rne"),
    },
    models=dict.fromkeys(ARCHS), division={"div.full.f32": 1},
    clamp={"sm_89": "max.f32 min.f32", "sm_90": "min.xorsign.abs.f32"}, fp_fusion=True,
    errors={"casts.sm_80": "CompilationError: type fp8e4nv not supported"},
)  # fmt: skip
GPU = GpuFacts(
    "NVIDIA H200", "sm_90", "580.95.05", "13.0", torch_cast=(0x7E, 0x7F, 0x7F, 0x7F), ratio=1.0, division_differs=9000,
    divisions=65536, division_ulps=1, constant_differs=30000, casts_differ=0, casts=1 << 20, clamp=(448.0, -448.0),
    virtual_memory=True,
)  # fmt: skip
NO_GPU = GpuFacts(errors={"gpu": "RuntimeError: torch sees no GPU"})


def said(
    software_: Software = SOFTWARE, cpu: CpuFacts = CPU, compiler: CompilerFacts = COMPILER, gpu: GpuFacts = GPU
) -> dict[str, tuple[str, str]]:
    """Value and meaning by a finding's name."""
    found = findings(Machine(software_, cpu, compiler, gpu))
    assert len({finding.name for finding in found}) == len(found)
    for finding in found:
        assert finding.means.endswith((".", "`."))
        assert "\n" not in finding.value + finding.means
    return {finding.name: (finding.value, finding.means) for finding in found}


def test_a_machine_with_a_gpu_is_described() -> None:
    """Versions, the arch, and that its cast is the model's."""
    found = said()
    assert found["GPU"][0] == "NVIDIA H200, sm_90, driver 580.95.05, CUDA 13.0"
    assert "`--arch sm_90` is native" in found["GPU"][1]
    assert found["Triton's cast on this GPU"][0] == "0 of 1048576 codes differ from the model of sm_90"
    assert found["compute-sanitizer"] == (
        "2025.3.1, /opt/compute-sanitizer", "A case's command can be run under it, to see the line of a wrong access.",
    )  # fmt: skip
    assert found["virtual memory"][0] == "cuda-bindings 13.0.3, supported"


def test_a_machine_without_a_gpu_is_described() -> None:
    """The reason, and that the interpreter runs instead; nothing of the GPU is made up."""
    found = said(gpu=NO_GPU)
    assert found["GPU"][0] == "none (RuntimeError: torch sees no GPU)"
    assert "interpreter" in found["GPU"][1]
    assert not {name for name in found if "this GPU" in name or "on the GPU" in name}
    assert "depends on it" in found["virtual memory"][1]


def test_nothing_at_all_is_survived() -> None:
    """Without torch, Triton and answers every finding says that it was not measured."""
    broken = {"cpu": "ended"}
    nothing = Software("3.10.0", "Linux x86_64", "0.1.0")
    found = said(nothing, CpuFacts(errors=broken), CompilerFacts(errors=broken), GpuFacts())
    for name in ("torch", "triton", "compute-sanitizer", "virtual memory"):
        assert found[name][0] == "absent"
    assert found["GPU"][0] == "none (not measured)"
    assert found["448 / 448"][0] == "CPU: not measured"
    for name in ("torch's cast on the CPU", "Triton's division", "interpreter as it is", "fp fusion by default"):
        assert "ended" in found[name][0]
    assert "inconclusive" in found["interpreter corrected"][1]
    assert "model alone" in found["Triton's cast for sm_89"][1]
    assert (
        said(nothing, CpuFacts(), CompilerFacts(), GpuFacts())["Triton's division"][0] == "not compiled (not measured)"
    )


@pytest.mark.parametrize(("triton", "seen"), [("3.6.0", True), ("3.7.1", True), ("3.9.0", True), ("3.11.0", False)])
def test_versions_are_those_seen_or_not(triton: str, seen: bool) -> None:
    """An unknown version is left to the self-tests."""
    means = said(replace(SOFTWARE, triton=triton))["triton"][1]
    assert ("were seen to work" in means) == seen
    assert ("self-tests decide" in means) == (not seen)


@pytest.mark.parametrize(
    ("codes", "means"),
    [
        ((0x7E, 0x7E, 0x7E, 0x7F), "It saturates"),
        ((0x7E, 0x7F, 0x7F, 0x7F), "NaN above 464"),
        ((0x7F, 0x7F, 0x7F, 0x7F), "neither overflow policy"),
        ((0x7E, 0x7E, 0x7F, 0x7F), "neither overflow policy"),
    ],
)
def test_torchs_cast_is_named(codes: tuple[int, ...], means: str) -> None:
    """By its codes at 464, 465, infinity and NaN, on CPU and GPU alike."""
    found = said(cpu=replace(CPU, torch_cast=codes), gpu=replace(GPU, torch_cast=codes))
    for where in ("CPU", "GPU"):
        value, meaning = found[f"torch's cast on the {where}"]
        assert value.startswith(f"464→0x{codes[0]:02X} 465→0x{codes[1]:02X}")
        assert means in meaning


def test_a_ratio_that_is_not_one_is_said() -> None:
    """On either device."""
    assert "exactly" in said()["448 / 448"][1]
    value, means = said(gpu=replace(GPU, ratio=0.99999994))["448 / 448"]
    assert value == "CPU: 1.0, GPU: 0.99999994"
    assert "need not" in means


def test_division_is_ieee_or_approximate() -> None:
    """By its instruction, and on a GPU by count."""
    assert "divide_approx" in said()["Triton's division"][1]
    assert (
        "can declare `divide`" in said(compiler=replace(COMPILER, division={"div.rn.f32": 1}))["Triton's division"][1]
    )
    assert said()["division on this GPU"][0] == "9000 of 65536 quotients are not IEEE's, by 1 ulp at most"
    assert "approximate" in said()["x / 448.0 on this GPU"][1]
    assert said(gpu=replace(GPU, constant_differs=0))["x / 448.0 on this GPU"][1] == "`x / 448.0` is the IEEE quotient."


def test_a_gpu_that_differs_from_its_model_is_an_alarm() -> None:
    """Interpreted runs for it are not to be trusted; an arch without a model is not compared."""
    assert "is wrong here" in said(gpu=replace(GPU, casts_differ=3))["Triton's cast on this GPU"][1]
    lonely = replace(GPU, arch="sm_103", casts_differ=None, errors={"casts": "LookupError: sm_103 has no model"})
    assert said(gpu=lonely)["Triton's cast on this GPU"][0] == "not compared (LookupError: sm_103 has no model)"


def test_virtual_memory_needs_bindings_and_a_device() -> None:
    """Either may lack."""
    assert "No layout uses it" in said(replace(SOFTWARE, cuda_bindings=None))["virtual memory"][1]
    assert "the device has none" in said(gpu=replace(GPU, virtual_memory=False))["virtual memory"][0]


def test_the_interpreter_is_described_before_and_after() -> None:
    """Wrong as it is, right when corrected, or failing for an arch with the reason."""
    assert said()["interpreter as it is"][0] == "30 of 128 casts to e4m3fn wrong, 5 of 8 casts to bf16"
    right = said(cpu=replace(CPU, raw_casts_wrong=0, raw_bf16_wrong=0))["interpreter as it is"][1]
    assert "all the same" in right
    assert said()["interpreter corrected"][0] == f"right for {', '.join(ARCHS)}"
    failing = said(cpu=replace(CPU, corrected={"sm_89": "it casts wrongly", "sm_90": None}))["interpreter corrected"]
    assert failing == ("fails for sm_89", "Interpreted casts there are inconclusive; sm_89: it casts wrongly.")


def test_a_clamped_nan_is_described_three_times() -> None:
    """Interpreted, compiled, and on the GPU, each with what it means."""
    found = said()
    assert found["tl.clamp(NaN), interpreted"][0] == "NaN → NaN, -NaN → NaN"
    assert "sm_89, sm_90" in found["tl.clamp(NaN), interpreted"][1]
    assert "launders NaN" in found["tl.clamp, compiled"][1]
    assert found["tl.clamp(NaN) on this GPU"][0] == "NaN → 448, -NaN → -448"
    keeping = replace(COMPILER, clamp={"sm_90": "max.NaN.f32 min.NaN.f32"})
    kept = said(compiler=keeping, gpu=replace(GPU, clamp=(None, None)))
    assert kept["tl.clamp(NaN), interpreted"][1].startswith("NaN survives")
    assert "keep NaN" in kept["tl.clamp, compiled"][1]
    assert "does otherwise" in said(compiler=keeping)["tl.clamp(NaN), interpreted"][1]
    assert (
        "a number of NaN" in said(cpu=replace(CPU, clamp=(-448.0, -448.0)), gpu=NO_GPU)["tl.clamp(NaN), interpreted"][1]
    )


def test_every_arch_has_its_cast() -> None:
    """Right, two steps, not compiled, or at odds with the model."""
    found = said()
    assert found["Triton's cast for sm_80"][0] == "does not compile (CompilationError: type fp8e4nv not supported)"
    assert found["Triton's cast for sm_89"] == (
        "fp32 in two steps, via_fp16_rtz",
        "A native cast of fp32 is a step off there for some values: expect double-rounding.",
    )
    assert "is right there" in found["Triton's cast for sm_120"][1]
    odd = said(compiler=replace(COMPILER, models={**COMPILER.models, "sm_90": "it casts otherwise"}))
    assert odd["Triton's cast for sm_90"][1] == "Interpreted casts for it are inconclusive: it casts otherwise."


@pytest.mark.parametrize(("fusion", "value"), [(True, "on"), (False, "off"), (None, "unknown (ended)")])
def test_fusion_is_on_off_or_unknown(fusion: bool | None, value: str) -> None:
    """Unknown has its reason."""
    compiler = replace(COMPILER, fp_fusion=fusion, errors={"fp_fusion": "ended"})
    assert said(compiler=compiler)["fp fusion by default"][0] == value


def test_an_attempt_that_fails_leaves_a_line() -> None:
    """None, and the reason by name."""
    attempts = Attempts()
    assert attempts.attempt("one", lambda: 1) == 1
    assert attempts.attempt("two", lambda: 1 // int("0")) is None
    assert attempts.errors == {"two": "ZeroDivisionError: integer division or modulo by zero"}


def test_a_helper_that_dies_or_hangs_leaves_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its facts are empty."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho last words >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert measured("gpu", GpuFacts).errors == {"gpu": "the helper process ended with status 3: last words"}
    program.write_text("#!/bin/sh\nexit 3\n")
    assert measured("cpu", CpuFacts).errors == {"cpu": "the helper process ended with status 3"}
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(doctor, "TIMEOUT", 0.1)
    assert measured("cpu", CpuFacts).errors == {"cpu": "took more than 0.1 seconds"}


def test_helpers_measure_this_machine() -> None:
    """The CPU's and the compiler's facts are whole, whether there is a GPU or not."""
    cpu, compiler = measured("cpu", CpuFacts), measured("compiler", CompilerFacts)
    assert cpu.errors == {}
    assert (cpu.ratio, cpu.raw_casts, cpu.raw_bf16) == (1.0, 128, 8)
    assert cpu.raw_casts_wrong
    assert cpu.corrected == dict.fromkeys(ARCHS)
    assert compiler.models == dict.fromkeys(ARCHS)
    assert compiler.division == {"div.full.f32": 1}
    assert compiler.casts["sm_90"] == "rne"
    assert set(compiler.errors) == {"casts.sm_75", "casts.sm_80", "casts.sm_86"}


def test_compute_sanitizer_is_found_and_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On the path or under CUDA_HOME; its version is what it prints."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    program = tmp_path / "bin" / "compute-sanitizer"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'NVIDIA (R) Compute Sanitizer'\necho 'Version 2025.3.1 (build 1)'\n")
    program.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert software.sanitizer_path() == str(program)
    assert software.sanitizer_version(str(program)) == "2025.3.1"
    program.write_text("#!/bin/sh\nexit 1\n")
    assert software.sanitizer_version(str(program)) is None
    assert software.sanitizer_version(str(tmp_path / "absent")) is None


def test_a_sanitizer_that_hangs_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there all the same."""

    def hangs(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("compute-sanitizer", 30)

    monkeypatch.setattr(subprocess, "run", hangs)
    assert software.sanitizer_version("compute-sanitizer") is None
    found = said(replace(SOFTWARE, sanitizer=None))
    assert found["compute-sanitizer"][0] == "version unknown, /opt/compute-sanitizer"


def test_versions_come_from_metadata() -> None:
    """What is not installed has none."""
    assert software.version("numpy")
    assert software.version("kvcheck-no-such-package") is None


def test_without_a_gpu_the_gpus_facts_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """One reason, and nothing is tried."""

    def absent() -> bool:
        raise RuntimeError("torch sees no GPU")

    monkeypatch.setattr(measure_gpu, "_require", absent)
    assert measure_gpu.measure() == NO_GPU
