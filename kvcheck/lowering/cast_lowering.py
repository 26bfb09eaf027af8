"""What the installed Triton's compiler makes of a cast to e4m3fn for an arch, read from its PTX. Needs no GPU."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Mapping

from kvcheck.errors import SelectionError
from kvcheck.formats.spec import Rounding
from kvcheck.lowering.archs import AMD, SOURCES, Source, capability, cast_model, check_arch, installed
from kvcheck.lowering.messages import described
from kvcheck.lowering.triton_key import remember_triton_key

#: Threads of a warp.
_WARP = 32
_EIGHT_BITS = ("e4m3x2", "e5m2x2")
_NARROW = (*_EIGHT_BITS, "f16x2", "bf16x2", "f16", "bf16")
_DIVIDES = re.compile(r"(div|rcp)\.[\w.]*f\d\d|v_(div_scale|div_fmas|div_fixup|rcp)_f\d\d\w*")
_AMD_ENCODES = re.compile(r"v_cvt_(\w+_)?(fp8|bf8)_[bf]")


def casts(assembly: str) -> dict[str, int]:
    """The instructions that round to an 8-bit float or to a 16-bit one, and how often each stands in the assembly."""
    return _counted(assembly, _rounds)


def divisions(assembly: str) -> dict[str, int]:
    """The instructions that divide floats or take a reciprocal, and how often each stands in the assembly."""
    return _counted(assembly, lambda opcode: _DIVIDES.fullmatch(opcode) is not None)


def _rounds(opcode: str) -> bool:
    """Whether an instruction is PTX's `cvt` to a narrow float, `cvt.rounding.….to.from`, or AMD's to an 8-bit one."""
    parts = opcode.split(".")
    if parts[0] == "cvt" and len(parts) > 3:
        return parts[1].startswith("r") and parts[-2] in _NARROW and parts[-1] not in _EIGHT_BITS
    return _AMD_ENCODES.match(opcode) is not None


def _counted(assembly: str, wanted: Callable[[str], bool]) -> dict[str, int]:
    opcodes = re.findall(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.]*)", assembly, flags=re.MULTILINE)
    return dict(sorted(Counter(filter(wanted, opcodes)).items()))


def rounding_of(instructions: Mapping[str, int]) -> Rounding | None:
    """How a kernel that does nothing but cast fp32 to e4m3fn rounds, by its instructions; None where unclear.

    PTX ISA, `cvt`: `.rn` is to nearest even, `.rz` toward zero, and `.satfinite` saturates.
    """
    encoders = [name for name in instructions if "e4m3" in name]
    if len(encoders) != 1 or not encoders[0].startswith("cvt.rn.satfinite.e4m3x2."):
        return None
    first_steps = {
        match[2].removesuffix("x2"): match[1]
        for match in (re.match(r"cvt\.(r\w)\.(?:\w+\.)?(f16x2|f16|bf16x2|bf16)\.f32", name) for name in instructions)
        if match
    }
    steps: dict[tuple[str, str], Rounding] = {
        ("f16", "rz"): "via_fp16_rtz",
        ("f16", "rn"): "via_fp16_rne",
        ("bf16", "rn"): "via_bf16",
    }
    if not first_steps:
        return "rne"
    return steps.get(next(iter(first_steps.items()))) if len(first_steps) == 1 else None


def compiled_rounding(arch: str, source: Source) -> Rounding | None:
    """How the installed Triton casts `source` to e4m3fn on an NVIDIA arch; None where its PTX is unclear.

    Takes 0.2 s, and a moment once Triton has it in its cache. Starts no thread and touches no GPU. Raises whatever
    the compiler raises where it does not compile, and SelectionError for an arch that is unknown or not NVIDIA's.
    """
    from kvcheck.kernels import conversions  # noqa: PLC0415 - imports triton

    return rounding_of(casts(assembly(arch, conversions.cast, {"values": f"*{source}", "codes": "*u8"})))


def assembly(arch: str, kernel: Callable[..., None], signature: dict[str, str]) -> str:
    """The PTX of a plain kernel with a constant SIZE of 128, by the installed Triton. Raises as `compiled_rounding`."""
    check_arch(arch)
    if arch in AMD:
        raise SelectionError(f"arch {arch!r}: only NVIDIA's casts are read from PTX")
    import triton  # noqa: PLC0415 - slow to import, and the interpreter's switch must be set before
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource  # noqa: PLC0415
    from triton.runtime.jit import JITFunction  # noqa: PLC0415 - not triton.jit, which may be the interpreter's

    remember_triton_key()
    # Triton 3.2 has another word for it.
    if "constexprs" in inspect.signature(ASTSource).parameters:
        source = ASTSource(JITFunction(kernel), {**signature, "SIZE": "constexpr"}, constexprs={"SIZE": 128})
    else:
        source = ASTSource(JITFunction(kernel), signature, constants={"SIZE": 128})
    return str(triton.compile(source, target=GPUTarget("cuda", capability(arch), _WARP)).asm["ptx"])


def model_error(arch: str) -> str | None:
    """Why the model of an arch is not what the installed Triton compiles, in one line; None where it is."""
    model = cast_model(arch)
    if arch in AMD:
        return model.reason
    for source in SOURCES:
        expected = model.rounding(source)
        try:
            found = compiled_rounding(arch, source)
        except Exception as error:  # noqa: BLE001 - whatever a compiler raises
            if model.compiles:
                return f"triton {installed()} does not compile {arch}'s cast of {source}: {described(error)}"
            continue
        if found != expected:
            rounds = "in a way that kvcheck does not know" if found is None else f"as {found}"
            return f"triton {installed()} casts {source} for {arch} {rounds}; the model says {expected}"
    return None
