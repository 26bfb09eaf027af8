"""A case's memory in this process, and a kernel run on it under shadow memory."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from kvcheck.contract import Accepts, Contract, Form, LoadContract
from kvcheck.draw.image import case_inputs, images
from kvcheck.draw.inputs import addressed
from kvcheck.kernels.store import CONTRACT
from kvcheck.memory.arena import Memory
from kvcheck.memory.place import place
from kvcheck.sanitizer.shadow.watch import watch
from kvcheck.schema import Case, Placement, SanitizerRecord, SanitizerRun


@dataclass(frozen=True)
class Scene:
    """A placement in memory, filled as before a first launch."""

    placement: Placement
    memory: Memory
    slots: np.ndarray[tuple[int, ...], np.dtype[np.int64]]

    def tensor(self, name: str) -> torch.Tensor:
        """A placed tensor."""
        return self.memory.tensor(self.placement.get(name))

    def rows(self, name: str) -> torch.Tensor:
        """A cache tensor as `[slots, heads, …]`."""
        return self.tensor(name).flatten(0, 1)


def scene(case: Case, contract: Contract | LoadContract = CONTRACT) -> Scene:
    """Place a case for a store into slots, or for a load from them."""
    placement = place(case, contract, Form("slots"), Accepts(), cuda=False)
    memory = Memory(placement, torch.device("cpu"))
    memory.upload(images(placement, case, contract, "A", "A"))
    return Scene(placement, memory, case_inputs(placement, case, contract).slots)


def watched(here: Scene, launch: Callable[[], None], together: tuple[frozenset[str], ...] = ()) -> SanitizerRun:
    """What shadow memory says of a launch."""
    kept = addressed(here.slots)
    rows = dict.fromkeys(("k_codes", "v_codes", "k_scales", "v_scales"), here.slots[kept])
    if here.placement.find("out_k") is not None:
        rows |= dict.fromkeys(("out_k", "out_v"), np.flatnonzero(kept))
    before = here.memory.download()
    with watch(here.placement, tuple(start for start, _ in here.memory.span()), rows, together) as seen:
        seen.begin(1)
        launch()
        seen.end(before, here.memory.download())
    return seen.run()


def marked(file: str, mark: str) -> int:
    """The one line of a file that ends with this comment."""
    lines = [number for number, line in enumerate(linecache.getlines(file), 1) if line.rstrip().endswith(f"# {mark}")]
    (line,) = lines
    return line


def at(run: SanitizerRun, file: str, mark: str) -> list[SanitizerRecord]:
    """The records of the line with this mark."""
    line = marked(file, mark)
    return [record for record in run.records if record.line == line]
