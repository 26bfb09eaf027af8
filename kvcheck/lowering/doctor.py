"""Measures a machine, each part in a process of its own, and says what each finding means for the checks."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from kvcheck.lowering import doctor_says as says
from kvcheck.lowering.machine import CompilerFacts, CpuFacts, Finding, GpuFacts
from kvcheck.lowering.software import software

_Facts = TypeVar("_Facts", CpuFacts, CompilerFacts, GpuFacts)

#: Seconds that one helper process may take.
TIMEOUT = 300.0
_UNSET = ("TRITON_INTERPRET", "TRITON_OVERRIDE_ARCH")


def examine() -> tuple[Finding, ...]:
    """What this machine does and what that means, in a fixed order. Needs nothing but Python; raises nothing.

    CUDA is initialised in a helper process only.
    """
    with ThreadPoolExecutor() as pool:
        cpu = pool.submit(measured, "cpu", CpuFacts)
        compiler = pool.submit(measured, "compiler", CompilerFacts)
        gpu = pool.submit(measured, "gpu", GpuFacts)
        installed = software()
        found = says.Machine(installed, cpu.result(), compiler.result(), gpu.result())
    return says.findings(found)


def measured(what: str, kind: type[_Facts]) -> _Facts:
    """What the helper process for `what` measured; nothing but the reason where it failed."""
    environment = {key: value for key, value in os.environ.items() if key not in _UNSET}
    environment |= {"TRITON_INTERPRET": "1"} if what == "cpu" else {}
    command = [sys.executable, "-m", "kvcheck.lowering.measure", what]
    try:
        done = subprocess.run(  # noqa: S603 - this very program
            command, capture_output=True, env=environment, timeout=TIMEOUT, check=False
        )
        return msgspec.json.decode(done.stdout, type=kind)
    except subprocess.TimeoutExpired:
        return kind(errors={what: f"took more than {TIMEOUT:g} seconds"})
    except msgspec.DecodeError:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        return kind(errors={what: f"the helper process ended with status {done.returncode}{last}"})
