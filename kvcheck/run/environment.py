"""What this machine is, as far as codes depend on it: GPU, driver, versions, torch's own cast."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from collections.abc import Callable
from importlib import metadata

import torch

Facts = dict[str, str | int | float | bool | None]


def environment(*, cuda: bool) -> Facts:
    """The facts that a report carries. Initialises CUDA where `cuda`: call it in a process that may."""
    facts: Facts = {
        "gpu": torch.cuda.get_device_name(0) if cuda else None,
        "arch": arch_of_gpu() if cuda else None,
        "driver": _driver() if cuda else None,
        "cuda": torch.version.cuda if cuda else None,
        "torch": str(torch.__version__),
        "triton": _version("triton"),
        "numpy": _version("numpy"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "torch_cast": torch_cast("cuda" if cuda else "cpu"),
        "fp_fusion": _fp_fusion(),
        "sanitizer": None,
    }
    return facts


def torch_cast(device: str) -> str:
    """What torch's own fp32 → e4m3fn cast makes of 464, 465, inf and NaN on a device, as code bytes."""
    values = torch.tensor([464.0, 465.0, float("inf"), float("nan")], device=device)
    codes = values.to(torch.float8_e4m3fn).view(torch.uint8).cpu().tolist()
    return " ".join(f"{name}→0x{code:02X}" for name, code in zip(("464", "465", "inf", "nan"), codes, strict=True))


def in_child(work: Callable[[], Facts]) -> Facts:
    """Run `work` in a forked child and return what it found, so that this process never touches the GPU.

    Raises RuntimeError, with the child's own words, where it failed.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.close(reader)
            os.write(writer, json.dumps(_answer(work)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    facts, error = json.loads(data) if data else ({}, "the process that asks the GPU ended without a word")
    if error:
        raise RuntimeError(error)
    return dict(facts)


def _answer(work: Callable[[], Facts]) -> tuple[Facts, str]:
    """What `work` found, or why it did not."""
    try:
        return work(), ""
    except BaseException as error:  # noqa: BLE001 - said to the parent, which raises
        return {}, f"{type(error).__name__}: {error}"


def arch_of_gpu() -> str:
    """The first GPU's arch, `sm_90`. Initialises CUDA."""
    major, minor = torch.cuda.get_device_capability(0)
    return f"sm_{major}{minor}"


def gpu_label() -> str:
    """The first GPU's name and unique id, where torch tells one. Initialises CUDA."""
    facts = torch.cuda.get_device_properties(0)
    identity = getattr(facts, "uuid", None)
    return facts.name + (f" GPU-{identity}" if identity else "")


def _driver() -> str | None:
    with contextlib.suppress(OSError):
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:  # noqa: PTH123 - a pseudo file
            words = file.readline().split()
        return next((word for word in words if word[:1].isdigit() and "." in word), None)
    with contextlib.suppress(Exception):
        import pynvml  # noqa: PLC0415 - there or not; torch brings it where CUDA is

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    return None


def _version(package: str) -> str | None:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def _fp_fusion() -> bool | None:
    """Whether Triton fuses multiplications with additions by default, where its options say so."""
    if "triton" not in sys.modules:
        return None
    with contextlib.suppress(Exception):
        from triton.backends.nvidia.compiler import CUDAOptions  # noqa: PLC0415 - private to the back end

        return bool(CUDAOptions().enable_fp_fusion)
    return None
