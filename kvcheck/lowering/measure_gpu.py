"""What this machine's first GPU does: torch's cast, division, Triton's cast and clamp. Initialises CUDA."""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvcheck.lowering.archs import NAMES
from kvcheck.lowering.attempts import Attempts
from kvcheck.lowering.machine import Clamped, GpuFacts
from kvcheck.lowering.sweep import model_codes
from kvcheck.lowering.torch_cast import cast_codes, ratio_448

Floats = npt.NDArray[np.float32]

#: Random quotients, and random fp32 bit patterns cast. A seed, so that two runs say the same.
QUOTIENTS, CASTS, SEED = 1 << 16, 1 << 20, 448
#: Elements a program takes.
SIZE = 1024
#: CUDA's number for the attribute "virtual memory management supported".
_VIRTUAL_MEMORY = 102


def measure() -> GpuFacts:
    """Measure in this process, which must not interpret. Where there is no GPU, `errors` says so."""
    attempts = Attempts()
    if attempts.attempt("gpu", _require) is None:
        return GpuFacts(errors=attempts.errors)
    division = attempts.attempt("division", _division)
    casts = attempts.attempt("casts", _casts)
    return GpuFacts(
        name=attempts.attempt("name", _name),
        arch=attempts.attempt("arch", _arch),
        driver=attempts.attempt("driver", driver_version),
        cuda=attempts.attempt("cuda", _cuda),
        torch_cast=attempts.attempt("torch_cast", lambda: cast_codes("cuda")),
        ratio=attempts.attempt("ratio", lambda: ratio_448("cuda")),
        division_differs=division and division[0],
        divisions=division and QUOTIENTS,
        division_ulps=division and division[1],
        constant_differs=division and division[2],
        casts_differ=casts,
        casts=None if casts is None else CASTS,
        clamp=attempts.attempt("clamp", _clamp),
        virtual_memory=attempts.attempt("virtual_memory", _virtual_memory),
        errors=attempts.errors,
    )


def _require() -> bool:
    import torch  # noqa: PLC0415 - slow, and may be missing

    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no GPU")
    torch.zeros(1, device="cuda")
    return True


def _name() -> str:
    import torch  # noqa: PLC0415

    return str(torch.cuda.get_device_name(0))


def _arch() -> str:
    import torch  # noqa: PLC0415

    major, minor = torch.cuda.get_device_capability(0)
    return f"sm_{major}{minor}"


def _cuda() -> str | None:
    import torch  # noqa: PLC0415

    return None if torch.version.cuda is None else str(torch.version.cuda)


def driver_version() -> str | None:
    """The NVIDIA driver's version, or None where nobody says."""
    with contextlib.suppress(OSError):
        words = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").split("\n")[0].split()
        return next((word for word in words if word[:1].isdigit() and "." in word), None)
    return None


def _division() -> tuple[int, int, int]:
    """Quotients that are not IEEE's, their largest distance in ulps, and how many of `x / 448.0` are not."""
    import torch  # noqa: PLC0415
    import triton  # noqa: PLC0415

    from kvcheck.kernels import conversions  # noqa: PLC0415 - imports triton

    random = np.random.default_rng(SEED)
    tops = random.uniform(0.01, 448, QUOTIENTS).astype(np.float32)
    bottoms = random.uniform(0.01, 1, QUOTIENTS).astype(np.float32)
    values = torch.tensor(tops).cuda()
    quotients = torch.empty_like(values)
    grid = (QUOTIENTS // SIZE,)
    triton.jit(conversions.divide)[grid](values, torch.tensor(bottoms).cuda(), quotients, SIZE=SIZE)
    distance = _ulps(quotients.cpu().numpy(), tops / bottoms)
    triton.jit(conversions.divide_by_maximum)[grid](values, quotients, SIZE=SIZE)
    by_constant = _ulps(quotients.cpu().numpy(), tops / np.float32(448))
    return int((distance != 0).sum()), int(distance.max()), int((by_constant != 0).sum())


def _ulps(found: Floats, right: Floats) -> npt.NDArray[np.int64]:
    """Distances between positive fp32 numbers, in ulps."""
    return np.abs(found.view(np.int32).astype(np.int64) - right.view(np.int32))


def _casts() -> int | None:
    """Codes of Triton's own cast that differ from the model of this GPU's arch; None where it has no model."""
    import torch  # noqa: PLC0415
    import triton  # noqa: PLC0415

    from kvcheck.kernels import conversions  # noqa: PLC0415

    arch = _arch()
    if arch not in NAMES:
        raise LookupError(f"{arch} has no model")
    patterns = np.random.default_rng(SEED).integers(0, 1 << 32, CASTS, dtype=np.uint32)
    codes = torch.empty(CASTS, dtype=torch.uint8, device="cuda")
    values = torch.tensor(patterns.view(np.int32)).cuda().view(torch.float32)
    triton.jit(conversions.cast)[(CASTS // SIZE,)](values, codes, SIZE=SIZE)
    return int((codes.cpu().numpy() != model_codes(arch, patterns)).sum())


def _clamp() -> Clamped:
    """tl.clamp of NaN and of -NaN; None for NaN."""
    import torch  # noqa: PLC0415
    import triton  # noqa: PLC0415

    from kvcheck.kernels import conversions  # noqa: PLC0415

    values = torch.tensor([0x7FC00000, -0x400000], dtype=torch.int32).cuda().view(torch.float32)
    results = torch.zeros(2, dtype=torch.float32, device="cuda")
    triton.jit(conversions.clamp)[(1,)](values, results, SIZE=2)
    plus, minus = results.cpu().tolist()
    return (None if plus != plus else plus, None if minus != minus else minus)  # noqa: PLR0124 - NaN


def _virtual_memory() -> bool:
    """Whether the driver says that the device maps virtual memory, by cuda-bindings."""
    driver = importlib.import_module("cuda.bindings.driver")
    attribute = driver.CUdevice_attribute(_VIRTUAL_MEMORY)
    error, value = driver.cuDeviceGetAttribute(attribute, 0)
    if int(error) != 0:
        raise RuntimeError(f"cuDeviceGetAttribute: {error}")
    return bool(value)
