"""Compile the store's launch for sm_90, and print the sizes of its parameters: as recorded, and as the PTX has them.

A process of its own: Triton keeps what it asked of a driver.
"""

from __future__ import annotations

import json
import re
from typing import Any

import torch
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from kvcheck.draw.image import case_inputs
from kvcheck.kernels.store import store
from kvcheck.lowering.offline import FakeDriver
from kvcheck.lowering.triton_recorder import Started, started
from kvcheck.memory.arena import Memory
from kvcheck.memory.place import place
from kvcheck.run.case import caller
from kvcheck.schema import Case

#: Bytes of PTX's parameters.
SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "f32": 4, "f64": 8, "b64": 8, "b32": 4}


def main() -> None:
    """Print both as JSON."""
    found: list[tuple[Started, str]] = []
    run = JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, **kwargs: Any) -> object:
        kernel = run(self, *args, grid=grid, **{**kwargs, "warmup": True})
        kernel = kernel.result() if hasattr(kernel, "result") else kernel
        options = {name: value for name, value in kwargs.items() if name != "warmup"}
        bound = self.device_caches[0][4](*args, **{"debug": False, "instrumentation_mode": "", **options})[0]
        found.append((started(kernel, (8, 1, 1), tuple(bound.values())), kernel.asm["ptx"]))
        return kernel

    driver.set_active(FakeDriver("sm_90"))
    JITFunction.run = compile_only
    case = Case(k_view="qkv")
    placement = place(case, store.contract, store.form, store.accepts, cuda=False)
    memory = Memory(placement, torch.device("cpu"))
    caller(store, case, memory, placement, case_inputs(placement, case, store.contract))()
    ((launch, ptx),) = found
    recorded = [len(each) if isinstance(each, bytes) else 8 for each in launch.parameters]
    taken = [SIZES[kind] for kind in re.findall(r"\.param \.(\w+)", ptx.split("{")[0])]
    print(json.dumps({"name": launch.name, "elf": launch.code[:4].hex(), "recorded": recorded, "taken": taken}))  # noqa: T201


if __name__ == "__main__":
    main()
