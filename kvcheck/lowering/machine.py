"""What a machine is, as far as codes depend on it: frozen data that helper processes measure and `doctor` explains.

None means that it could not be measured; `errors` says why, by the field's name.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

Clamped: TypeAlias = tuple[float | None, float | None]
"""tl.clamp(x, -448, 448) of NaN and of -NaN; None for NaN."""


class Software(msgspec.Struct, frozen=True):
    """Versions, without importing what is slow to import."""

    python: str
    platform: str
    kvcheck: str
    torch: str | None = None
    triton: str | None = None
    numpy: str | None = None
    cuda_bindings: str | None = None
    sanitizer: str | None = None
    """compute-sanitizer's version."""
    sanitizer_path: str | None = None


class CpuFacts(msgspec.Struct, frozen=True):
    """What the CPU, torch on it, and Triton's interpreter do."""

    torch_cast: tuple[int, ...] | None = None
    """The codes of 464, 465, infinity and NaN by torch's own cast to e4m3fn."""
    ratio: float | None = None
    """448 / 448 in fp32."""
    raw_casts_wrong: int | None = None
    """Of `raw_casts` probes, the codes that the interpreter as it is gets wrong."""
    raw_casts: int | None = None
    raw_bf16_wrong: int | None = None
    """Of `raw_bf16` probes, those that the interpreter as it is rounds wrongly to bf16."""
    raw_bf16: int | None = None
    corrected: dict[str, str | None] = {}
    """For each arch, why the corrected interpreter fails its self-test, or None where it passes."""
    clamp: Clamped | None = None
    errors: dict[str, str] = {}


class CompilerFacts(msgspec.Struct, frozen=True):
    """What the installed Triton compiles for archs, without their GPUs."""

    casts: dict[str, str] = {}
    """For each arch, how fp32 is rounded to e4m3fn: a named rounding, `unclear`, or `failed`."""
    models: dict[str, str | None] = {}
    """For each arch, why kvcheck's model is not what is compiled, or None where it is."""
    division: dict[str, int] | None = None
    """The instructions of `x / y` in fp32."""
    clamp: dict[str, str] = {}
    """For archs whose clamps differ, the instructions of tl.clamp(x, -448, 448); empty where it does not compile."""
    fp_fusion: bool | None = None
    """Whether a multiplication and an addition become one by default."""
    errors: dict[str, str] = {}


class GpuFacts(msgspec.Struct, frozen=True):
    """What this machine's first GPU does. Without one, all is None and `errors["gpu"]` says why."""

    name: str | None = None
    arch: str | None = None
    driver: str | None = None
    cuda: str | None = None
    """The CUDA version that torch was built for."""
    torch_cast: tuple[int, ...] | None = None
    ratio: float | None = None
    division_differs: int | None = None
    """Of `divisions` random quotients by Triton's `/`, those that are not the IEEE quotient."""
    divisions: int | None = None
    division_ulps: int | None = None
    """The largest distance of those, in ulps."""
    constant_differs: int | None = None
    """Of `divisions` random `x / 448.0` by Triton's `/`, those that are not the IEEE quotient."""
    casts_differ: int | None = None
    """Of `casts` fp32 inputs through Triton's own cast, the codes that differ from the arch's model."""
    casts: int | None = None
    clamp: Clamped | None = None
    virtual_memory: bool | None = None
    """Whether the device maps virtual memory, as fences need; None where cuda-bindings cannot ask."""
    errors: dict[str, str] = {}


class Finding(msgspec.Struct, frozen=True):
    """One thing measured: its name, what was found, and what that means for the checks, in one sentence."""

    name: str
    value: str
    means: str
