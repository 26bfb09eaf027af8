"""A recorded launch made again under a tool, in memory laid out as the tool needs it to see anything."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from kvcheck.addresses import byte_offsets, element_offsets, row_offsets
from kvcheck.contract import Accepts, Contract, Form, LoadContract
from kvcheck.draw.image import case_inputs, images
from kvcheck.draw.inputs import addressed
from kvcheck.emission import LAUNCHES
from kvcheck.memory.fences import FENCES
from kvcheck.memory.place import place
from kvcheck.run.compute_sanitizer import Output, Sanitizer
from kvcheck.run.whole import Asked
from kvcheck.sanitizer.replay import player
from kvcheck.sanitizer.replay.plan import Plan, Scene
from kvcheck.sanitizer.replay.recording import Recording
from kvcheck.schema import ITEMSIZE, Case, Placed

#: The layout in which each tool sees: a read past a tensor's end meets memory that is allocated and uninitialised, or
#: memory that is not allocated. The other way about neither says a word.
LAYOUTS = {"initcheck": "pooled", "memcheck": "exact", "racecheck": "exact", "synccheck": "exact"}


@dataclass(frozen=True)
class Played:
    """What a launch made again left behind."""

    output: Output
    scene: Scene
    bases: tuple[int, ...]
    """Where each allocation of the placement lay."""
    rows: dict[str, bytes] | None
    """The rows that it left, of tokens whose slot no other has; None where it did not come so far."""
    problem: str
    """Why not; empty where all was done."""
    others: tuple[tuple[int, int], ...] = ()
    """Spans of the target's own memory."""


def layout_for(tool: str, case: Case) -> str:
    """The layout that a case is replayed in under a tool."""
    return case.layout if tool == "memcheck" and case.layout in FENCES else LAYOUTS[tool]


def scene_of(
    case: Case,
    contract: Contract | LoadContract,
    form: Form,
    accepts: Accepts,
    *,
    layout: str,
    launch: int,
    cuda: bool = False,
) -> Scene:
    """Where launch number `launch` of a case is made again. Raises Unplaceable.

    The player lays out as kvcheck does on the CPU, where the slab of a caching allocator is kvcheck's own; `cuda` is
    for torch's.
    """
    moved = msgspec.structs.replace(case, layout=layout)
    placement = place(moved, contract, form, accepts, cuda=cuda)
    inputs = case_inputs(placement, moved, contract)
    kept = addressed(inputs.slots)
    slots = inputs.slots[kept]
    rows = {
        each.name: slots for each in placement.tensors if each.name in ("k_codes", "v_codes", "k_scales", "v_scales")
    }
    due = {}
    if isinstance(contract, LoadContract):
        tokens = np.flatnonzero(kept)
        rows |= {each.name: tokens for each in placement.tensors if each.name in ("out_k", "out_v")}
        due = {name: _bytes(placement.get(name), tokens, load=True) for name in ("out_k", "out_v")}
    else:
        due = {name: _bytes(placement.get(name), slots[_single(slots)], load=False) for name in rows}
    before = images(placement, moved, contract, *LAUNCHES[launch - 1])
    return Scene(placement, FENCES.get(layout, ""), before, rows, due)


def single_rows(recording: Recording, scene: Scene) -> dict[str, bytes]:
    """Of the rows that the recorded launch left, those that `scene` downloads."""
    found = {}
    for name, offsets in scene.due.items():
        slots = scene.rows[name]
        data = np.frombuffer(recording.rows[name], np.uint8)
        # -1 for the width is no answer where no slot is stored
        raw = data.reshape(len(slots), len(data) // max(len(slots), 1))
        kept = _single(slots) if name not in ("out_k", "out_v") else np.ones(len(slots), np.bool_)
        assert raw[kept].size == offsets.size
        found[name] = raw[kept].tobytes()
    return found


def replay(sanitizer: Sanitizer, tool: str, recording: Recording, scene: Scene, folder: Path, timeout: float) -> Played:
    """Make a recorded launch again under a tool. Writes to `folder`."""
    plan, result = folder / f"{tool}.plan", folder / f"{tool}.result"
    Plan(recording, scene, device=0, sparse=tool == "initcheck").write(plan)
    program = [sys.executable, "-I", "-S", player.__file__, str(plan), str(result)]
    left, bases = _left(sanitizer.run(tool, program, folder, timeout=timeout), scene, result)
    own = zip(bases[len(scene.placement.allocations) :], recording.own, strict=False)
    return replace(left, others=tuple((base, base + max(len(content), 1)) for base, content in own))


def launch_whole(
    sanitizer: Sanitizer,
    tool: str,
    asked: Asked,
    scene: Scene,
    folder: Path,
    timeout: float,
    environment: Mapping[str, str],
) -> Played:
    """Launch a case in the target's own process, under a tool. `scene` is where, with torch's allocations."""
    question, result = folder / f"{tool}.asked", folder / f"{tool}.result"
    question.write_bytes(msgspec.json.encode(asked))
    # Without torch's cache each tensor gets a cudaMalloc of its own size.
    exact = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"} if asked.case.layout == "exact" else {}
    program = [sys.executable, "-m", "kvcheck.run.whole", str(question), str(result)]
    output = sanitizer.run(tool, program, folder, timeout=timeout, environment={**environment, **exact})
    return _left(output, scene, result)[0]


def _left(output: Output, scene: Scene, result: Path) -> tuple[Played, tuple[int, ...]]:
    """What the process that made a launch left behind, and where all of its allocations lay."""
    try:
        said = json.loads(result.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Played(output, scene, (), None, "the process that was to make the launch left no result"), ()
    every = tuple(said["bases"])
    bases = every[: len(scene.placement.allocations)]
    if said["error"]:
        return Played(output, scene, bases, None, f"{said['error']}, in {said['stage']}"), every
    data = result.with_name(f"{result.name}.data").read_bytes()
    rows, start = {}, 0
    for name, offsets in scene.due.items():
        rows[name] = data[start : start + offsets.size]
        start += offsets.size
    return Played(output, scene, bases, rows, ""), every


def _single(slots: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each slot occurs once: what tokens that share one leave there may be either's."""
    _, inverse, counts = np.unique(slots, return_inverse=True, return_counts=True)
    single: np.ndarray[tuple[int], np.dtype[np.bool_]] = counts[inverse] == 1
    return single


def _bytes(
    tensor: Placed, rows: np.ndarray[tuple[int], np.dtype[np.int64]], *, load: bool
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The offset of every byte of a tensor's rows."""
    places = element_offsets(tensor)[rows] if load else row_offsets(tensor, rows)
    return byte_offsets(places, ITEMSIZE[tensor.dtype])
