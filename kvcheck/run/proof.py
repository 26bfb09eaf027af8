"""Proof that a tool sees on this machine: a kernel known to be bad is caught, and a right one is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kvcheck.run.compute_sanitizer import Sanitizer
from kvcheck.run.replayed import replay
from kvcheck.run.saw import saw
from kvcheck.sanitizer.replay.known_bad import INITIALISED, KNOWN_BAD, OUT, SOURCE, Tool, kernel
from kvcheck.sanitizer.replay.plan import Scene
from kvcheck.sanitizer.replay.recording import Recording
from kvcheck.schema import Placed, Placement, SanitizerKind, SanitizerRun

#: What each tool's known-bad kernel is to be called.
KINDS: dict[Tool, SanitizerKind] = {
    "memcheck": "out-of-bounds", "initcheck": "uninitialised", "racecheck": "race", "synccheck": "barrier",
}  # fmt: skip

#: Seconds that one proof may take.
LIMIT = 120.0


def scene() -> Scene:
    """64 bytes, the first half of which is K, and four bytes to store to."""
    k = Placed("k", 0, 0, "uint8", (1, 1, INITIALISED), (INITIALISED, INITIALISED, 1))
    codes = Placed("k_codes", 1, 0, "uint8", (1, 1, 1, OUT), (OUT, OUT, OUT, 1))
    placement = Placement("exact", (SOURCE, OUT), (k, codes), (), 1, independence=False)
    images = tuple(np.full(size, 7, np.uint8) for size in placement.allocations)
    return Scene(placement, "", images, {"k_codes": np.array([0])}, {})


def doubts(sanitizer: Sanitizer, tool: Tool, folder: Path) -> str:
    """Why a tool is not to be believed on this machine, in one line; empty where it is."""
    name, threads = KNOWN_BAD[tool]
    for each in (name, "right"):
        made = kernel(each, threads)
        place = folder / f"{tool}-{each}"
        place.mkdir()
        played = replay(sanitizer, tool, Recording((made,), (), {}, 1), scene(), place, LIMIT)
        run = saw(played, SanitizerRun(tool, "exact", "replay", "clean"), None)
        if each == "right":
            if run.state != "clean":
                what = run.reason or f"it says of it: {run.records[0].says}"
                return f"{tool} was tried on a kernel that is right, and does not call it so: {what}"
        elif not any(record.kernel.startswith(made.name) and record.kind == KINDS[tool] for record in run.records):
            return (
                f"{tool} was tried on a kernel that is known to be bad, and did not see it: {run.reason or run.state}"
            )
    return ""
