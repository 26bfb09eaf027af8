"""A case under shadow memory: its launches are watched, and what was seen is written beside its emission."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from kvcheck.api import LoadTarget, Target
from kvcheck.draw.inputs import Inputs, addressed
from kvcheck.memory.arena import Bytes, Memory
from kvcheck.run.files import write_atomic
from kvcheck.run.protocol import SHADOW, Job
from kvcheck.run.shadow_seen import cannot
from kvcheck.sanitizer.shadow.probe import proof
from kvcheck.sanitizer.shadow.segments import Rows
from kvcheck.sanitizer.shadow.watch import Watched, watch
from kvcheck.schema import Placement, SanitizerRun


class Watch:
    """What `run_case` tells of its launches."""

    def __init__(self, watched: Watched | None = None) -> None:
        self._watched = watched

    def begin(self, launch: int) -> None:
        """A launch starts, on memory filled anew."""
        if self._watched is not None:
            self._watched.begin(launch)

    def end(self, before: tuple[Bytes, ...], after: tuple[Bytes, ...]) -> None:
        """It has ended."""
        if self._watched is not None:
            self._watched.end(before, after)


@contextlib.contextmanager
def shadowed(job: Job, target: Target, memory: Memory, placement: Placement, inputs: Inputs) -> Iterator[Watch]:
    """Watch the launches in the block if the job asks for it, and write `shadow.msgpack`, whatever they raise.

    Where this process cannot be watched, or the self-test fails, the case runs all the same, and what is written says
    why nothing can be said.
    """
    if job.witness != "shadow":
        yield Watch()
        return
    if memory.device.type != "cpu":
        _write(job, cannot(placement.layout, f"shadow memory is the interpreter's; this case runs on {memory.device}"))
        yield Watch()
        return
    doubt = proof()
    if doubt is not None:
        _write(job, cannot(placement.layout, doubt))
        yield Watch()
        return
    bases = tuple(start for start, _ in memory.span())
    with watch(placement, bases, _rows(target, placement, inputs), _together(target)) as watched:
        try:
            yield Watch(watched)
        finally:
            _write(job, watched.run())


def _write(job: Job, run: SanitizerRun) -> None:
    write_atomic(Path(job.folder) / SHADOW, msgspec.msgpack.encode(run))


def _rows(target: Target, placement: Placement, inputs: Inputs) -> Rows:
    """The rows that the case addresses, by tensor."""
    kept = addressed(inputs.slots)
    names: set[str] = {tensor.name for tensor in placement.tensors}
    slots: dict[str, npt.NDArray[np.int64]] = {
        name: inputs.slots[kept] for name in ("k_codes", "v_codes", "k_scales", "v_scales") if name in names
    }
    if isinstance(target, LoadTarget):
        return {**slots, **dict.fromkeys(("out_k", "out_v"), np.flatnonzero(kept))}
    return slots


def _together(target: Target) -> tuple[frozenset[str], ...]:
    """The tensors that an engine has as one, so that one pointer may serve for them."""
    groups = []
    if target.accepts.source == "fused_kv":
        groups.append(frozenset({"k", "v"}))
    if target.form.kind in ("packed", "fused"):
        groups.append(frozenset({"k_codes", "v_codes"}))
    if target.form.kind == "fused":
        groups.append(frozenset({"k_scale", "v_scale"}))
    if target.form.scales == "inline":
        groups += [frozenset({f"{side}_codes", f"{side}_scales"}) for side in ("k", "v")]
    return tuple(groups)
