"""GPU architectures by name, and what each one's compiler makes of a cast to an 8-bit float, as data.

fp8e4nv is Triton's name for e4m3fn. Sources: PTX ISA, `cvt`, whose `.satfinite` forms round to nearest even, saturate,
and turn any NaN into 0x7F; the PTX that Triton emits for each arch, read for triton 3.4, 3.6, 3.7, 3.8 and 3.9.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import metadata
from typing import Literal, TypeAlias

from kvcheck.errors import SelectionError
from kvcheck.formats.spec import Rounding

Source: TypeAlias = Literal["fp32", "bf16", "fp16"]
SOURCES: tuple[Source, ...] = ("fp32", "bf16", "fp16")

#: NVIDIA's architectures that have a model, by compute capability.
CAPABILITIES = (75, 80, 86, 89, 90, 100, 120)
#: AMD's architectures that can be compiled for. Their casts have no model.
AMD = ("gfx942", "gfx950")
NAMES: tuple[str, ...] = (*(f"sm_{number}" for number in CAPABILITIES), *AMD)

#: The first Triton that casts fp32 for sm_89 in one instruction; those before it truncate to fp16 first.
_ONE_STEP_SM_89 = (3, 9)
#: The first capability with instructions for fp8e4nv, and the first whose cast of fp32 was always one instruction.
_FIRST_FP8, _FIRST_ONE_STEP = 89, 90


@dataclass(frozen=True)
class CastModel:
    """What a compiler makes of casts to e4m3fn and e5m2 for one arch. Overflow saturates; any NaN becomes 0x7F."""

    #: Name, `sm_89`
    arch: str
    #: How fp32 becomes a code; None where there is no model
    fp32: Rounding | None
    #: How bf16 and fp16 become a code, first widened to fp32, which is exact; None where there is no model
    half: Rounding | None
    #: Why there is no model: what the compiler says, or that none was made; None where there is one
    reason: str | None = None
    #: Whether casts to and from fp8e4nv compile
    compiles: bool = True

    def rounding(self, source: Source) -> Rounding | None:
        """How values of `source` become a code; None where there is no model."""
        return self.fp32 if source == "fp32" else self.half


def capability(name: str) -> int:
    """The compute capability of an NVIDIA arch: 89 for `sm_89`. Raises SelectionError for any other spelling."""
    found = re.fullmatch(r"sm_([1-9][0-9]{1,2})", name)
    if found is None:
        raise SelectionError(f"arch {name!r} is not known; expected one of {', '.join(NAMES)}")
    return int(found[1])


def check_arch(name: str) -> None:
    """Raise SelectionError, one line, unless `name` is an arch that kvcheck knows."""
    if name not in NAMES:
        raise SelectionError(f"arch {name!r} is not known; expected one of {', '.join(NAMES)}")


def cast_model(name: str, triton: str | None = None) -> CastModel:
    """The model of an arch's casts under a version of Triton, which is the installed one unless it is given.

    Raises SelectionError, one line, for an arch that kvcheck does not know.
    """
    check_arch(name)
    if name in AMD:
        return CastModel(name, None, None, f"{name}: no model of its compiler's fp8 casts was made")
    number = capability(name)
    if number < _FIRST_FP8:
        return CastModel(name, None, None, f"{name}: type fp8e4nv not supported in this architecture", compiles=False)
    one_step = number >= _FIRST_ONE_STEP or release(installed() if triton is None else triton) >= _ONE_STEP_SM_89
    return CastModel(name, "rne" if one_step else "via_fp16_rtz", "rne")


def installed() -> str:
    """The version of the installed Triton; empty where there is none under that name."""
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return ""


def release(version: str) -> tuple[int, int]:
    """Major and minor number of a version; (0, 0) where it has none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)
