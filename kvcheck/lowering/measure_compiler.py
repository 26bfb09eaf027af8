"""What the installed Triton compiles: casts for every arch, division, fusion. Needs no GPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from kvcheck.lowering.archs import CAPABILITIES
from kvcheck.lowering.attempts import Attempts
from kvcheck.lowering.cast_lowering import assembly, compiled_rounding, divisions, model_error
from kvcheck.lowering.machine import CompilerFacts

#: Archs between which the compiler's way to clamp differs.
CLAMPS = ("sm_89", "sm_90")


def measure() -> CompilerFacts:
    """Measure in this process, which must not interpret."""
    from kvcheck.kernels import conversions  # noqa: PLC0415 - imports triton

    attempts = Attempts()
    archs = [f"sm_{number}" for number in CAPABILITIES]
    models = {arch: attempts.attempt(f"models.{arch}", partial(model_error, arch)) for arch in archs}
    casts = {arch: attempts.attempt(f"casts.{arch}", partial(_cast, arch)) for arch in archs}
    clamps = {arch: attempts.attempt(f"clamp.{arch}", partial(_clamp, arch)) for arch in CLAMPS}
    return CompilerFacts(
        casts={arch: found or "failed" for arch, found in casts.items()},
        models={arch: attempts.errors.get(f"models.{arch}", found) for arch, found in models.items()},
        division=attempts.attempt(
            "division",
            lambda: _divisions(conversions.divide, {"tops": "*fp32", "bottoms": "*fp32", "quotients": "*fp32"}),
        ),
        clamp={arch: found or "" for arch, found in clamps.items()},
        fp_fusion=attempts.attempt("fp_fusion", _fp_fusion),
        errors=attempts.errors,
    )


def _cast(arch: str) -> str:
    return compiled_rounding(arch, "fp32") or "unclear"


def _clamp(arch: str) -> str:
    """The instructions that clamp, each once, in order."""
    from kvcheck.kernels import conversions  # noqa: PLC0415

    text = assembly(arch, conversions.clamp, {"values": "*fp32", "results": "*fp32"})
    return " ".join(dict.fromkeys(re.findall(r"^\s*((?:min|max)\.\S*f32)\b", text, flags=re.MULTILINE)))


def _divisions(kernel: Callable[..., None], signature: dict[str, str]) -> dict[str, int]:
    return divisions(assembly("sm_90", kernel, signature))


def _fp_fusion() -> bool | None:
    """The default of the option, as Triton resolves it for this environment."""
    from triton.backends.nvidia.compiler import CUDAOptions  # noqa: PLC0415 - private to the back end

    return bool(CUDAOptions().enable_fp_fusion)
