"""What Triton does here, compiled, interpreted and on the GPU, and what that means: one sentence each."""

from __future__ import annotations

from kvcheck.lowering.archs import CAPABILITIES
from kvcheck.lowering.machine import Clamped, CompilerFacts, CpuFacts, Finding, GpuFacts

_ARCHS = tuple(f"sm_{number}" for number in CAPABILITIES)


def triton_findings(cpu: CpuFacts, compiler: CompilerFacts, gpu: GpuFacts) -> tuple[Finding, ...]:
    """Every finding about Triton, in a fixed order."""
    return (
        _division(compiler),
        *_division_here(gpu),
        _raw(cpu),
        _corrected(cpu),
        *_clamps(cpu, compiler, gpu),
        *(_lowering(compiler, arch) for arch in _ARCHS),
        _fusion(compiler),
    )


def _why(errors: dict[str, str], name: str) -> str:
    """Why a thing was not measured: its own reason, else the first there is."""
    return errors.get(name) or next(iter(errors.values()), "not measured")


def _division(compiler: CompilerFacts) -> Finding:
    name = "Triton's division"
    if compiler.division is None:
        return Finding(name, f"not compiled ({_why(compiler.errors, 'division')})", "Nothing is known of `/` here.")
    if set(compiler.division) == {"div.rn.f32"}:
        means = "`/` is the IEEE quotient: a kernel that uses it can declare `divide`."
    else:
        means = (
            "`/` may be 2 ulp off the IEEE quotient: a kernel that uses it declares `divide_approx`, or uses tl.div_rn."
        )
    return Finding(name, " ".join(compiler.division) or "no division", means)


def _division_here(gpu: GpuFacts) -> list[Finding]:
    if gpu.division_differs is None:
        return []
    measured = f"{gpu.division_differs} of {gpu.divisions} quotients are not IEEE's, by {gpu.division_ulps} ulp at most"
    constant = f"{gpu.constant_differs} of {gpu.divisions} are not IEEE's"
    if gpu.constant_differs == 0:
        means = "`x / 448.0` is the IEEE quotient."
    else:
        means = "`x / 448.0` is not the IEEE quotient: a scale computed so is approximate, and is to be declared so."
    return [
        Finding(
            "division on this GPU",
            measured,
            "Codes are judged given the scale that the kernel emitted, so that such a scale condemns none.",
        ),
        Finding("x / 448.0 on this GPU", constant, means),
    ]


def _raw(cpu: CpuFacts) -> Finding:
    name = "interpreter as it is"
    if cpu.raw_casts_wrong is None or cpu.raw_bf16_wrong is None:
        return Finding(name, f"not measured ({_why(cpu.errors, 'raw_casts')})", "Only its self-test, below, decides.")
    value = (
        f"{cpu.raw_casts_wrong} of {cpu.raw_casts} casts to e4m3fn wrong, "
        f"{cpu.raw_bf16_wrong} of {cpu.raw_bf16} casts to bf16"
    )
    if cpu.raw_casts_wrong or cpu.raw_bf16_wrong:
        return Finding(name, value, "kvcheck replaces its conversions before a case runs.")
    return Finding(
        name, value, "It is right as far as the self-test looks; kvcheck replaces its conversions all the same."
    )


def _corrected(cpu: CpuFacts) -> Finding:
    name = "interpreter corrected"
    if not cpu.corrected:
        why = _why(cpu.errors, "corrected")
        return Finding(name, f"not measured ({why})", "Interpreted results that depend on a cast are inconclusive.")
    failing = {arch: error for arch, error in cpu.corrected.items() if error is not None}
    if failing:
        arch, error = next(iter(failing.items()))
        means = f"Interpreted casts there are inconclusive; {arch}: {error}."
        return Finding(name, f"fails for {', '.join(failing)}", means)
    means = "Interpreted casts are those of the arch asked for."
    return Finding(name, f"right for {', '.join(cpu.corrected)}", means)


def _clamps(cpu: CpuFacts, compiler: CompilerFacts, gpu: GpuFacts) -> list[Finding]:
    found = []
    compiled = {arch: opcodes for arch, opcodes in compiler.clamp.items() if opcodes}
    numbers = [arch for arch, opcodes in compiled.items() if "NaN" not in opcodes]
    if cpu.clamp is not None:
        if numbers and None in cpu.clamp:
            means = (
                f"By the PTX a GPU makes a number of it ({', '.join(numbers)}): an interpreted run says nothing there."
            )
        elif gpu.clamp not in (None, cpu.clamp):
            means = "This GPU does otherwise: an interpreted run says nothing of a NaN that is clamped."
        else:
            means = _clamp_means(cpu.clamp)
        found.append(Finding("tl.clamp(NaN), interpreted", _clamped(cpu.clamp), means))
    if compiled:
        value = "; ".join(f"{arch}: {opcodes}" for arch, opcodes in compiled.items())
        means = (
            "These give the operand that is no NaN: a clamp before a cast launders NaN there."
            if numbers
            else "These keep NaN, which is then judged as the contract says."
        )
        found.append(Finding("tl.clamp, compiled", value, means))
    if gpu.clamp is not None:
        found.append(Finding("tl.clamp(NaN) on this GPU", _clamped(gpu.clamp), _clamp_means(gpu.clamp)))
    return found


def _clamped(clamp: Clamped) -> str:
    results = ("NaN" if each is None else f"{each:g}" for each in clamp)
    return ", ".join(f"{name} → {result}" for name, result in zip(("NaN", "-NaN"), results, strict=True))


def _clamp_means(clamp: Clamped) -> str:
    if clamp == (None, None):
        return "NaN survives the clamp and is judged as the contract says."
    return "A clamp before the cast makes a number of NaN, which is a wrong code unless the contract says `undefined`."


def _lowering(compiler: CompilerFacts, arch: str) -> Finding:
    name = f"Triton's cast for {arch}"
    cast, differs = compiler.casts.get(arch), compiler.models.get(arch)
    if cast is None:
        why = _why(compiler.errors, f"casts.{arch}")
        return Finding(name, f"not compiled ({why})", "Interpreted runs for it rest on kvcheck's model alone.")
    if differs is not None:
        return Finding(name, cast, f"Interpreted casts for it are inconclusive: {differs}.")
    if cast == "failed":
        why = _why(compiler.errors, f"casts.{arch}")
        return Finding(
            name, f"does not compile ({why})", "A kernel with a native cast cannot run there: compile-failure."
        )
    if cast == "rne":
        return Finding(name, "fp32 to nearest even, in one step", "A native cast is right there.")
    means = "A native cast of fp32 is a step off there for some values: expect double-rounding."
    return Finding(name, f"fp32 in two steps, {cast}", means)


def _fusion(compiler: CompilerFacts) -> Finding:
    name = "fp fusion by default"
    if compiler.fp_fusion is None:
        means = "Whether a product that is added to rounds once or twice is not known."
        return Finding(name, f"unknown ({_why(compiler.errors, 'fp_fusion')})", means)
    if compiler.fp_fusion:
        means = "A product that is added to rounds once on a GPU, and twice in the interpreter: codes may differ by it."
        return Finding(name, "on", means)
    return Finding(name, "off", "A product that is added to rounds twice, as in the interpreter.")
