"""One case, in this process: place, launch three times, write the emission. The judge is elsewhere."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import torch

from kvcheck.addresses import byte_offsets, element_offsets, row_offsets
from kvcheck.api import LoadTarget, StoreTarget, Target
from kvcheck.contract import Contract
from kvcheck.draw.image import Images, case_inputs
from kvcheck.draw.inputs import Inputs, addressed
from kvcheck.emission import LAUNCHES, LOADED, REPEAT, STORED, Step
from kvcheck.lowering.host_graph import say_no_capture
from kvcheck.memory.arena import Bytes, Memory
from kvcheck.memory.cache import build_cache, build_output
from kvcheck.memory.overrun import watch as watch_fences
from kvcheck.memory.place import place
from kvcheck.run.captured import Capture, captured, equal
from kvcheck.run.failure import failure_of, refusal_of
from kvcheck.run.files import UnwritableError, write_atomic
from kvcheck.run.launch import RefusedError, launch, refused, witnessed
from kvcheck.run.protocol import CAPTURING, EMISSION, FAILURE, PLACING, PREPARING, SCENE, STAGE, UNWRITTEN, WRITING, Job
from kvcheck.run.recorded import Recorder
from kvcheck.run.reference import reference_store
from kvcheck.run.shadowed import shadowed
from kvcheck.run.stream import own_stream
from kvcheck.run.untouched import TamperedError, replaced
from kvcheck.run.witness import Witness
from kvcheck.schema import ITEMSIZE, Case, Change, Emission, Launch, Placement, Tensor

#: Bytes of a note on how far the case is: as many for each, so that no part of an earlier one is left.
NOTE = 24

Rows: TypeAlias = dict[str, tuple[int, npt.NDArray[np.int64]]]


def run_case(job: Job, target: Target, device: torch.device) -> None:
    """Run a job's case and write its emission, or why there is none, into the job's folder."""
    folder = Path(job.folder)
    try:
        _run_case(job, target, device, folder)
    except UnwritableError:
        with contextlib.suppress(OSError):
            (folder / UNWRITTEN).touch()


def _run_case(job: Job, target: Target, device: torch.device, folder: Path) -> None:
    try:
        emission = _emit(job, target, device, folder)
    except RefusedError as refusal:
        write_atomic(folder / FAILURE, msgspec.msgpack.encode(refusal_of(str(refusal))))
    except UnwritableError:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a target raises, SystemExit included, is this case's crash
        write_atomic(folder / FAILURE, msgspec.msgpack.encode(failure_of(error)))
    else:
        write_atomic(folder / EMISSION, msgspec.msgpack.encode(emission))


def _emit(job: Job, target: Target, device: torch.device, folder: Path) -> Emission:
    case, contract = job.case, target.contract
    stage = folder / STAGE
    _note(stage, PLACING)
    placement = place(case, contract, target.form, target.accepts, cuda=device.type == "cuda")
    memory = Memory(placement, device, job.fenced)
    fences = memory.fences()
    if fences is not None:
        watch_fences(folder, fences)
    scene = Emission(
        case, contract, target.form, placement, memory.addresses(), (), (), (), _device_name(device), memory.mapped()
    )
    write_atomic(folder / SCENE, msgspec.msgpack.encode(scene))
    inputs = case_inputs(placement, case, contract)
    witness = Witness(memory, placement)
    rows = _row_bytes(placement, target, inputs)
    call = _call(job, target, memory, placement, inputs)
    recorder, drawn = Recorder(job, memory, placement), Images(placement, case, contract)
    launches: list[Launch] = []
    plan = list(LAUNCHES)
    stream = own_stream(device) if device.type == "cuda" else None
    if stream is None:
        say_no_capture()
    called: tuple[str, ...] | None = None
    if case.launch == "graph" and not job.reference:
        _note(stage, CAPTURING)
        call, called = captured(Capture(call, target, memory, witness, stream), drawn.decoy())
    with shadowed(job, target, memory, placement, inputs) as shadow:
        for number, step in enumerate(plan, 1):
            if launches:
                _note(stage, f"{PREPARING} {number}")
            before = drawn.before(*step)
            memory.upload(before)
            shadow.begin(number)
            _note(stage, f"launch {number}")
            with witnessed(witness, on=number == 1 and called is None), recorder.launch(number):
                refusal = launch(call, target, stream)
            after = memory.download()
            shadow.end(before, after)
            if refusal is not None:
                refused(refusal, number, changed=not equal(before, after))
            launches.append(_record(step, before, after, rows))
            if number == len(LAUNCHES):
                plan += _more(case, launches)
    _note(stage, WRITING)
    if (name := replaced()) is not None:
        raise TamperedError(f"the target has replaced {name} in its process, so nothing that is read there counts")
    recorder.write(launches)
    return msgspec.structs.replace(
        scene, launches=tuple(launches), copies=witness.copies(), received=witness.received(), called=called
    )


def _note(stage: Path, what: str) -> None:
    # Over what stands there: of a file that is cut to nothing, ext4 writes what follows to the disk at once.
    try:
        file = os.open(stage, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.write(file, what.encode().ljust(NOTE))
        finally:
            os.close(file)
    except OSError as error:
        raise UnwritableError(f"{stage.name} could not be written: {error.strerror or error}") from error


def _more(case: Case, launches: list[Launch]) -> list[Step]:
    """What follows the first three launches."""
    repeat = [REPEAT] if launches[0].rows != launches[2].rows else []
    crossed: dict[str, Tensor] = {"k": "k", "v": "v"}
    return repeat + ([Step("A", "A", crossed[case.cross])] if case.cross in crossed else [])


def caller(target: Target, case: Case, memory: Memory, placement: Placement, inputs: Inputs) -> Callable[[], None]:
    """What one launch of the target does."""

    def launch() -> None:
        slots = memory.tensor(placement.get("slots"))
        cache = build_cache(memory, placement, case, target.contract, target.form, inputs)
        if isinstance(target, LoadTarget):
            target(slots, cache, build_output(memory, placement))
        else:
            target(memory.tensor(placement.get("k")), memory.tensor(placement.get("v")), slots, cache)

    return launch


def _call(job: Job, target: Target, memory: Memory, placement: Placement, inputs: Inputs) -> Callable[[], None]:
    """What one launch does: the target, or kvcheck's reference store in its place."""
    if not job.reference:
        return caller(target, job.case, memory, placement, inputs)

    def reference() -> None:
        assert isinstance(target.contract, Contract)
        reference_store(memory, placement, job.case, target.contract, inputs)

    return reference


def _row_bytes(placement: Placement, target: Target, inputs: Inputs) -> Rows:
    """For every tensor a target must fill: its allocation and the offset of every byte of its addressed rows."""
    kept = addressed(inputs.slots)
    found: Rows = {}
    for tensor in placement.tensors:
        if isinstance(target, StoreTarget) and tensor.name in STORED:
            rows = row_offsets(tensor, inputs.slots[kept])
        elif isinstance(target, LoadTarget) and tensor.name in LOADED:
            rows = element_offsets(tensor)[kept]
        else:
            continue
        found[tensor.name] = (tensor.allocation, byte_offsets(rows, ITEMSIZE[tensor.dtype]))
    return found


def _record(
    step: Step,
    before: tuple[Bytes, ...],
    after: tuple[Bytes, ...],
    rows: Rows,
) -> Launch:
    """The addressed rows in full, and every other byte that changed."""
    changed = [was != now for was, now in zip(before, after, strict=True)]
    data = {}
    for name, (allocation, offsets) in rows.items():
        data[name] = after[allocation][offsets].tobytes()
        changed[allocation][offsets.reshape(-1)] = False
    changes: list[Change] = []
    for index in range(len(after)):
        changes += _changes(index, changed[index], after[index])
    return Launch(step.prefill, step.poison, data, tuple(changes), step.redrawn)


def _changes(allocation: int, changed: npt.NDArray[np.bool_], after: Bytes) -> list[Change]:
    """Runs of changed bytes."""
    where = np.flatnonzero(changed)
    if not len(where):
        return []
    runs = np.split(where, np.flatnonzero(np.diff(where) != 1) + 1)
    return [Change(allocation, int(run[0]), after[run[0] : run[-1] + 1].tobytes()) for run in runs]


def _device_name(device: torch.device) -> str:
    return f"cuda:{device.index or 0}" if device.type == "cuda" else "cpu"
