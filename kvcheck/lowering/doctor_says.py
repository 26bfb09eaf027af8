"""What a machine's parts mean for the checks: one sentence each. Pure functions of frozen data."""

from __future__ import annotations

from dataclasses import dataclass

from kvcheck.lowering.archs import release
from kvcheck.lowering.doctor_triton import triton_findings
from kvcheck.lowering.machine import CompilerFacts, CpuFacts, Finding, GpuFacts, Software
from kvcheck.lowering.torch_cast import EDGES

#: Versions of Triton on which kvcheck's corrections were seen to work.
SEEN = ((3, 6), (3, 7), (3, 9))


@dataclass(frozen=True)
class Machine:
    """All that was measured."""

    software: Software
    cpu: CpuFacts
    compiler: CompilerFacts
    gpu: GpuFacts


def findings(machine: Machine) -> tuple[Finding, ...]:
    """Every finding, in a fixed order. What could not be measured says why, and what follows."""
    return (
        *_installed(machine.software),
        *_gpu(machine),
        _virtual_memory(machine),
        *_torch(machine),
        *triton_findings(machine.cpu, machine.compiler, machine.gpu),
    )


def _installed(software: Software) -> list[Finding]:
    triton = software.triton
    if triton is None:
        means = "No kernel of Triton's can run, kvcheck's own included."
    elif release(triton) in SEEN:
        means = "kvcheck's corrections of the interpreter, its models and its offline compiler were seen to work on it."
    else:
        means = "kvcheck's corrections were not seen on this version: self-tests decide, else results are inconclusive."
    torch = "Tensors are torch's." if software.torch else "No target can run without it."
    if software.sanitizer_path is None:
        sanitizer = "No kernel can be run under it here; the checks of codes do not need it."
    else:
        sanitizer = "A case's command can be run under it, to see the line of a wrong access."
    found = software.sanitizer or ("version unknown" if software.sanitizer_path else None)
    return [
        Finding("kvcheck", software.kvcheck, f"Runs on Python {software.python}, {software.platform}."),
        Finding("torch", software.torch or "absent", torch),
        Finding("triton", triton or "absent", means),
        Finding("compute-sanitizer", _joined(found, software.sanitizer_path), sanitizer),
    ]


def _joined(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part) or "absent"


def _gpu(machine: Machine) -> list[Finding]:
    gpu = machine.gpu
    if gpu.name is None:
        why = gpu.errors.get("gpu", "not measured")
        return [
            Finding(
                "GPU",
                f"none ({why})",
                "Targets of Triton run in its interpreter, on the CPU, with a model of the arch's cast.",
            )
        ]
    versions = _joined(gpu.arch, gpu.driver and f"driver {gpu.driver}", gpu.cuda and f"CUDA {gpu.cuda}")
    named = Finding(
        "GPU", f"{gpu.name}, {versions}", f"`--arch {gpu.arch}` is native here; others are lowered or interpreted."
    )
    if gpu.casts_differ is None:
        why = gpu.errors.get("casts", "not measured")
        cast = Finding(
            "Triton's cast on this GPU", f"not compared ({why})", "`native-cast` shows case by case what it does."
        )
    elif gpu.casts_differ == 0:
        cast = Finding(
            "Triton's cast on this GPU", f"0 of {gpu.casts} codes differ from the model of {gpu.arch}",
            "Interpreted runs for this arch stand for what its GPUs do.",
        )  # fmt: skip
    else:
        cast = Finding(
            "Triton's cast on this GPU", f"{gpu.casts_differ} of {gpu.casts} codes differ from the model of {gpu.arch}",
            "kvcheck's model of this arch is wrong here: do not trust interpreted runs for it, and please report it.",
        )  # fmt: skip
    return [named, cast]


def _virtual_memory(machine: Machine) -> Finding:
    bindings, gpu = machine.software.cuda_bindings, machine.gpu
    name = "virtual memory"
    if gpu.name is None:
        return Finding(name, _joined(bindings and f"cuda-bindings {bindings}"), "Nothing depends on it without a GPU.")
    if bindings is None:
        return Finding(
            name,
            "cuda-bindings absent",
            "No layout uses it yet.",
        )
    if gpu.virtual_memory:
        return Finding(
            name,
            f"cuda-bindings {bindings}, supported",
            "A tensor can end at unmapped memory, so that a read past it crashes the kernel. No layout uses it yet.",
        )
    why = gpu.errors.get("virtual_memory", "the device has none")
    return Finding(name, f"cuda-bindings {bindings}, {why}", "No layout uses it yet.")


def _torch(machine: Machine) -> list[Finding]:
    found = [_torch_cast("CPU", machine.cpu.torch_cast, machine.cpu.errors)]
    ratios = [("CPU", machine.cpu.ratio)]
    if machine.gpu.name is not None:
        found.append(_torch_cast("GPU", machine.gpu.torch_cast, machine.gpu.errors))
        ratios.append(("GPU", machine.gpu.ratio))
    value = ", ".join(f"{where}: {'not measured' if ratio is None else repr(ratio)}" for where, ratio in ratios)
    if all(ratio == 1 for _, ratio in ratios):
        means = "A row whose amax is 448 has the scale 1 exactly, so its codes are those of the row itself."
    else:
        means = "A row whose amax is 448 need not have the scale 1: cases built on that say less here."
    return [*found, Finding("448 / 448", value, means)]


def _torch_cast(where: str, codes: tuple[int, ...] | None, errors: dict[str, str]) -> Finding:
    name = f"torch's cast on the {where}"
    if codes is None:
        why = errors.get("torch_cast") or next(iter(errors.values()), "not measured")
        return Finding(name, f"not measured ({why})", "kvcheck's reference does not depend on it.")
    value = " ".join(f"{edge}→0x{code:02X}" for edge, code in zip(EDGES, codes, strict=True))
    if codes == (0x7E, 0x7E, 0x7E, 0x7F):
        means = "It saturates, as kvcheck's reference does."
    elif codes[0] == 0x7E and codes[1] == 0x7F:
        means = "It gives NaN above 464, where a kernel that saturates is right: a test against it fails right kernels."
    else:
        means = "It follows neither overflow policy of the contract: no reference to test against."
    return Finding(name, value, means)
