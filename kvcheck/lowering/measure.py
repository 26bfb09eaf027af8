"""The helper processes of `kvcheck doctor`: measure the CPU, the compiler or the GPU, and print what was found as JSON.

Started as `python -m kvcheck.lowering.measure cpu|compiler|gpu`. Whatever is missing is left None, with the reason.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import msgspec

from kvcheck.lowering.machine import CompilerFacts, CpuFacts, GpuFacts

Facts = CpuFacts | CompilerFacts | GpuFacts


def measure(what: str) -> Facts:
    """Measure `cpu`, `compiler` or `gpu` in this process, which should do nothing else. Raises KeyError otherwise."""
    from kvcheck.lowering import measure_compiler, measure_cpu, measure_gpu  # noqa: PLC0415 - each needs what is here

    measures: dict[str, Callable[[], Facts]] = {
        "cpu": measure_cpu.measure,
        "compiler": measure_compiler.measure,
        "gpu": measure_gpu.measure,
    }
    return measures[what]()


def main() -> None:
    """Measure what the argument says and print it to what was standard output; all else goes to standard error."""
    answers = os.dup(1)
    os.dup2(2, 1)
    facts = measure(sys.argv[1])
    with os.fdopen(answers, "wb") as pipe:
        pipe.write(msgspec.json.encode(facts))
    os._exit(0)  # Python takes half a second to take torch down


if __name__ == "__main__":
    main()
