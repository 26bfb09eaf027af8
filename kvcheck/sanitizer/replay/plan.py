"""A recorded launch in the memory that a tool needs, as the player takes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.sanitizer.replay.recording import Argument, KernelLaunch, Recording
from kvcheck.sanitizer.shadow.segments import Rows, segments
from kvcheck.schema import Placement

Bytes = npt.NDArray[np.uint8]
Fence: TypeAlias = Literal["", "end", "begin"]

#: Pointers to scratch memory that Triton hands every kernel behind its own arguments: two since 3.4, one before. A
#: kernel takes as many as it has parameters; more do no harm.
SCRATCH_POINTERS = 2

#: Uploads of a plan at most. Of more runs, those with the narrowest gaps between them go together, gaps included: what
#: lies there then counts as initialised, so that a read of it is not seen, and none is seen that is right.
MOST_UPLOADS = 4096

#: Addresses of allocations, as far apart as no allocation is long: what `segments` finds is told apart by them.
_APART = 1 << 44


@dataclass(frozen=True)
class Span:
    """Bytes of an allocation."""

    allocation: int
    offset: int
    length: int


@dataclass(frozen=True)
class Scene:
    """Where a launch is made again: the tensors' places, what stands there before, and what is due afterwards."""

    placement: Placement
    fence: Fence
    images: tuple[Bytes, ...]
    """Every byte of every allocation before the launch."""
    rows: Rows
    """The rows that the case addresses, by tensor."""
    due: dict[str, npt.NDArray[np.int64]]
    """For every tensor to download, the offset in its allocation of every byte of its rows, in order."""


class Plan:
    """What the player is to do. `sparse`: only what a kernel may read is uploaded; all else is uninitialised."""

    def __init__(self, recording: Recording, scene: Scene, *, device: int, sparse: bool) -> None:
        self._scene, self._data = scene, bytearray()
        placement = scene.placement
        self._allocations = [{"size": size, "fence": scene.fence} for size in placement.allocations]
        self._uploads: list[tuple[int, int, int, int]] = []
        for span in known(scene) if sparse else whole(placement):
            image = scene.images[span.allocation][span.offset : span.offset + span.length]
            self._upload(span.allocation, span.offset, image.tobytes())
        self._own = [self._memory(content) for content in recording.own]
        codes: dict[bytes, tuple[int, int]] = {}
        kernels = [self._kernel(kernel, codes) for kernel in recording.kernels]
        self._plan = {
            "device": device, "allocations": self._allocations, "uploads": self._uploads, "kernels": kernels,
            "downloads": [
                (span.allocation, span.offset, span.length)
                for name, offsets in scene.due.items()
                for span in spans(placement.get(name).allocation, offsets)
            ],
        }  # fmt: skip

    def write(self, path: Path) -> None:
        """Write the plan, and its bytes beside it."""
        path.write_text(json.dumps(self._plan), encoding="utf-8")
        path.with_name(f"{path.name}.data").write_bytes(self._data)

    def _keep(self, content: bytes) -> tuple[int, int]:
        start = len(self._data)
        self._data += content
        return start, len(content)

    def _upload(self, allocation: int, offset: int, content: bytes) -> None:
        if content:
            self._uploads.append((allocation, offset, *self._keep(content)))

    def _memory(self, content: bytes) -> int:
        """Memory of the target's own: what it held is all initialised, since nobody knows what was not."""
        self._allocations.append({"size": max(len(content), 1), "fence": ""})
        self._upload(len(self._allocations) - 1, 0, content)
        return len(self._allocations) - 1

    def _kernel(self, kernel: KernelLaunch, codes: dict[bytes, tuple[int, int]]) -> dict[str, object]:
        if kernel.code not in codes:
            codes[kernel.code] = self._keep(kernel.code)
        arguments = [self._argument(argument) for argument in kernel.arguments]
        scratch: dict[str, object] = {"allocation": None, "offset": 0}
        if kernel.scratch:
            blocks = kernel.grid[0] * kernel.grid[1] * kernel.grid[2]
            self._allocations.append({"size": kernel.scratch * blocks, "fence": ""})
            scratch = {"allocation": len(self._allocations) - 1, "offset": 0}
        null: dict[str, object] = {"allocation": None, "offset": 0}
        return {
            "name": kernel.name, "code": codes[kernel.code], "grid": kernel.grid, "threads": kernel.threads,
            "shared": kernel.shared, "arguments": [*arguments, scratch, *[null] * (SCRATCH_POINTERS - 1)],
        }  # fmt: skip

    def _argument(self, argument: Argument) -> dict[str, object]:
        if not argument.pointer:
            return {"data": argument.data.hex()}
        if argument.own is not None:
            return {"allocation": self._own[argument.own], "offset": argument.delta}
        if not argument.tensor:
            return {"allocation": None, "offset": 0}
        placed = self._scene.placement.get(argument.tensor)
        return {"allocation": placed.allocation, "offset": placed.offset + argument.delta}


def known(scene: Scene) -> list[Span]:
    """The runs of bytes that a kernel may read before it has stored anything: elements of inputs, no gap, no guard."""
    placement = scene.placement
    map_ = segments(placement, tuple(index * _APART for index in range(len(placement.allocations))), scene.rows)
    runs: list[list[int]] = []
    for start, stop in zip(map_.starts[map_.known].tolist(), map_.stops[map_.known].tolist(), strict=True):
        if runs and runs[-1][1] == start:
            runs[-1][1] = stop
        else:
            runs.append([start, stop])
    found = [Span(start // _APART, start % _APART, stop - start) for start, stop in runs]
    return joined(found)


def joined(runs: list[Span]) -> list[Span]:
    """At most `MOST_UPLOADS` runs, or one an allocation, which hold all of these, sorted by allocation and offset."""
    if len(runs) <= MOST_UPLOADS:
        return runs
    gaps = [
        after.offset - before.offset - before.length
        for before, after in pairwise(runs)
        if before.allocation == after.allocation
    ]
    apart = len({run.allocation for run in runs})
    widest = sorted(gaps, reverse=True)
    narrow = widest[max(MOST_UPLOADS - apart, 0)] if len(widest) > MOST_UPLOADS - apart else -1
    found = runs[:1]
    for run in runs[1:]:
        last = found[-1]
        if run.allocation == last.allocation and run.offset - last.offset - last.length <= narrow:
            found[-1] = Span(last.allocation, last.offset, run.offset + run.length - last.offset)
        else:
            found.append(run)
    return found


def whole(placement: Placement) -> list[Span]:
    """Every byte of every allocation."""
    return [Span(index, 0, size) for index, size in enumerate(placement.allocations)]


def spans(allocation: int, offsets: npt.NDArray[np.int64]) -> list[Span]:
    """Byte offsets, in order, as runs without a gap."""
    flat = offsets.reshape(-1)
    if not flat.size:
        return []
    runs = np.split(flat, np.flatnonzero(np.diff(flat) != 1) + 1)
    return [Span(allocation, int(run[0]), len(run)) for run in runs]
