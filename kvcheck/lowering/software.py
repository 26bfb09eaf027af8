"""Versions of what is installed, by its metadata and by asking compute-sanitizer: nothing slow is imported."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib import metadata

import kvcheck
from kvcheck.lowering.machine import Software

_SANITIZER = "compute-sanitizer"


def software() -> Software:
    """What is installed here. What is not is None."""
    path = sanitizer_path()
    return Software(
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        kvcheck=kvcheck.__version__,
        torch=version("torch"),
        triton=version("triton"),
        numpy=version("numpy"),
        cuda_bindings=version("cuda-bindings"),
        sanitizer=None if path is None else sanitizer_version(path),
        sanitizer_path=path,
    )


def version(package: str) -> str | None:
    """The version of an installed package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def sanitizer_path() -> str | None:
    """Where compute-sanitizer is: on the path, or where CUDA is usually installed."""
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    folders = [os.environ.get("PATH", ""), *(os.path.join(root, "bin") for root in roots if root)]  # noqa: PTH118
    return shutil.which(_SANITIZER, path=os.pathsep.join(folders))


def sanitizer_version(path: str) -> str | None:
    """What compute-sanitizer says its version is, or None where it does not run or says nothing of the kind."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(rb"[Vv]ersion\s+(\d[\w.]*)", done.stdout + done.stderr)
    return found[1].decode() if found else None
