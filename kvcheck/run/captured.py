"""A case's launch captured in a graph, with other inputs in memory than those that replays find there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from kvcheck.addresses import byte_offsets, element_offsets
from kvcheck.api import Target
from kvcheck.emission import LOADED, STORED
from kvcheck.lowering.interpreter_errors import needs_gpu
from kvcheck.memory.arena import Bytes, Memory
from kvcheck.run.graph import graph_on
from kvcheck.run.launch import launch, refused, witnessed
from kvcheck.run.witness import Witness
from kvcheck.schema import ITEMSIZE, Placement


@dataclass(frozen=True)
class Capture:
    """What is captured: `call`, a launch of `target` in `memory`, on `stream`, while `witness` looks on."""

    call: Callable[[], None]
    target: Target
    memory: Memory
    witness: Witness
    stream: torch.cuda.Stream | None


def captured(this: Capture, decoy: tuple[Bytes, ...]) -> tuple[Callable[[], None], tuple[str, ...]]:
    """Call once, as engines do before they capture, then capture a call, all with a decoy's inputs in memory.

    What replays it, and the tensors in which the first call changed a byte. Raises NotModelledError where, without a
    GPU, a replay does not do what the captured call did.
    """
    memory = this.memory
    memory.upload(decoy)
    refusal = launch(this.call, this.target, this.stream)
    after = memory.download()
    if refusal is not None:
        refused(refusal, 1, changed=not equal(decoy, after))
    graph = graph_on(this.stream)
    memory.upload(decoy)
    with graph.capture(), witnessed(this.witness, on=True):
        this.call()
    if this.stream is None:
        made = memory.download()
        memory.upload(decoy)
        graph.replay()
        if not equal(made, memory.download()):
            raise needs_gpu("not all that the target does is torch's or Triton's, so its graph cannot be replayed")
    return graph.replay, _filled(memory.placement, decoy, after)


def _filled(placement: Placement, before: tuple[Bytes, ...], after: tuple[Bytes, ...]) -> tuple[str, ...]:
    """The cache and output tensors in which a byte has changed."""
    found = []
    for tensor in placement.tensors:
        if tensor.name in (*STORED, *LOADED):
            at = byte_offsets(element_offsets(tensor), ITEMSIZE[tensor.dtype])
            if (before[tensor.allocation][at] != after[tensor.allocation][at]).any():
                found.append(tensor.name)
    return tuple(found)


def equal(before: tuple[Bytes, ...], after: tuple[Bytes, ...]) -> bool:
    """Whether two images of memory have the same bytes."""
    return all(np.array_equal(was, now) for was, now in zip(before, after, strict=True))
