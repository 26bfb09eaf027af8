"""What the CPU does: torch's cast on it, and Triton's interpreter before and after its correction."""

from __future__ import annotations

import numpy as np

from kvcheck.formats import exact
from kvcheck.lowering.archs import CAPABILITIES
from kvcheck.lowering.attempts import Attempts
from kvcheck.lowering.machine import Clamped, CpuFacts
from kvcheck.lowering.torch_cast import cast_codes, ratio_448


def measure() -> CpuFacts:
    """Measure in this process, which must not have imported Triton yet; changes its interpreter."""
    attempts = Attempts()
    casts = attempts.attempt("raw_casts", _raw_casts)
    bf16 = attempts.attempt("raw_bf16", _raw_bf16)
    return CpuFacts(
        torch_cast=attempts.attempt("torch_cast", lambda: cast_codes("cpu")),
        ratio=attempts.attempt("ratio", lambda: ratio_448("cpu")),
        raw_casts_wrong=casts and casts[0],
        raw_casts=casts and casts[1],
        raw_bf16_wrong=bf16 and bf16[0],
        raw_bf16=bf16 and bf16[1],
        clamp=attempts.attempt("clamp", _clamp),
        corrected=attempts.attempt("corrected", _corrected) or {},
        errors=attempts.errors,
    )


def _raw_casts() -> tuple[int, int]:
    """Wrong codes of the interpreter as it is, and how many were looked at."""
    from kvcheck.kernels import conversions  # noqa: PLC0415 - imports triton
    from kvcheck.lowering.interpreter_probe import interpret, probe_values  # noqa: PLC0415

    values = probe_values()
    found = interpret(conversions.cast, values, np.zeros(values.size, dtype=np.uint8))
    return int((found != exact.encode(values)).sum()), values.size


def _raw_bf16() -> tuple[int, int]:
    """Wrong bf16 patterns of the interpreter as it is, and how many were looked at."""
    from kvcheck.kernels import conversions  # noqa: PLC0415
    from kvcheck.lowering.interpreter_probe import BF16_PROBES, interpret  # noqa: PLC0415

    patterns, expected = (np.array(each) for each in zip(*BF16_PROBES, strict=True))
    found = interpret(
        conversions.narrow, patterns.astype(np.uint32).view(np.float32), np.zeros(patterns.size, dtype=np.int16)
    )
    return int((found.view(np.uint16) != expected).sum()), patterns.size


def _clamp() -> Clamped:
    """tl.clamp of NaN and -NaN."""
    from kvcheck.kernels import conversions  # noqa: PLC0415
    from kvcheck.lowering.interpreter_probe import interpret  # noqa: PLC0415

    values = np.array([0x7FC00000, 0xFFC00000], dtype=np.uint32).view(np.float32)
    plus, minus = (float(each) for each in interpret(conversions.clamp, values, np.zeros(2, dtype=np.float32)))
    return (None if np.isnan(plus) else plus, None if np.isnan(minus) else minus)


def _corrected() -> dict[str, str | None]:
    """For each arch with a model, why the corrected interpreter fails, or None."""
    from kvcheck.lowering.interpreter_cast import corrected  # noqa: PLC0415
    from kvcheck.lowering.interpreter_probe import interpreter_error  # noqa: PLC0415

    found: dict[str, str | None] = {}
    for arch in (f"sm_{number}" for number in CAPABILITIES):
        with corrected(arch):
            found[arch] = interpreter_error(arch)
    return found
