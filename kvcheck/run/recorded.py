"""A launch of a case recorded, so that it can be made again in other memory, by a process without torch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from kvcheck.addresses import extent
from kvcheck.lowering.triton_launches import watch
from kvcheck.lowering.triton_recorder import NotRecordedError, Started, recording
from kvcheck.memory.arena import Memory
from kvcheck.run.files import write_atomic
from kvcheck.run.protocol import RECORDING, Job
from kvcheck.sanitizer.replay.recording import Argument, KernelLaunch, Recording
from kvcheck.schema import Launch, Placement

#: The launch that is recorded: the third, when kernels are compiled and tuned and engines have set themselves up.
RECORDED = 3

#: Kernels of one launch, and bytes of the target's own memory, that are recorded at most.
MOST_KERNELS, MOST_OWN = 64, 256 << 20


class Recorder:
    """Records one launch of a job that asks for it, and writes `recording.msgpack`."""

    def __init__(self, job: Job, memory: Memory, placement: Placement) -> None:
        self._job, self._placement, self._device = job, placement, memory.device
        self._bases = [begin for begin, _ in memory.span()]
        self._ends = [end for _, end in memory.span()]
        self._kernels: list[KernelLaunch] = []
        self._own: dict[tuple[int, int], bytes] = {}
        self._reason = ""

    @contextlib.contextmanager
    def launch(self, number: int) -> Iterator[None]:
        """Record the launch in the block if it is the one to be recorded."""
        if self._job.witness != "record" or number != RECORDED:
            yield
            return
        with watch(lambda *_: None) as state, contextlib.ExitStack() as stack:
            try:
                stack.enter_context(recording(self._note))
            except (ImportError, AttributeError) as error:
                self._reason = f"this Triton's launches cannot be recorded: {error}"
            yield
        if not self._reason and len(state.kernels) != len(self._kernels):
            self._reason = f"{len(self._kernels)} of {len(state.kernels)} launches were recorded"
        if not self._reason and not self._kernels:
            self._reason = "no Triton kernel was launched"

    def write(self, launches: list[Launch]) -> None:
        """Write what was recorded, with the rows that the launch left. Call it when they are all made."""
        if self._job.witness != "record" or len(launches) < RECORDED:
            return
        rows = launches[RECORDED - 1].rows
        made = Recording(tuple(self._kernels), tuple(self._own.values()), rows, RECORDED, self._reason)
        write_atomic(Path(self._job.folder) / RECORDING, msgspec.msgpack.encode(made))

    def _note(self, started: Started) -> None:
        """Keep a launch. What cannot be kept is said, and the launch made all the same."""
        if self._reason:
            return
        try:
            self._keep(started)
        except NotRecordedError as error:
            self._reason = str(error)

    def _keep(self, started: Started) -> None:
        if len(self._kernels) == MOST_KERNELS:
            raise NotRecordedError(f"a launch of more than {MOST_KERNELS} kernels is not recorded")
        arguments = tuple(self._argument(started.name, value) for value in started.parameters)
        self._kernels.append(
            KernelLaunch(
                started.name, started.code, started.grid, started.threads, started.shared, started.scratch, arguments
            )
        )

    def _argument(self, kernel: str, value: Any) -> Argument:
        if isinstance(value, bytes):
            return Argument(data=value)
        if value is None:
            return Argument(pointer=True)
        address = int(value.data_ptr()) if hasattr(value, "data_ptr") else int(value)
        if address == 0:
            return Argument(pointer=True)
        for index, (begin, end) in enumerate(zip(self._bases, self._ends, strict=True)):
            if begin <= address < end:
                return self._placed(kernel, index, address - begin)
        if isinstance(value, torch.Tensor):
            return self._of_target(value, address)
        raise NotRecordedError(f"{kernel} is handed a pointer to memory that is neither kvcheck's nor a tensor's")

    def _placed(self, kernel: str, allocation: int, offset: int) -> Argument:
        """A pointer into kvcheck's memory, as far from the begin of the tensor that it leads into as it is.

        What lies beside all tensors, as at the begin of a storage, is another's memory in another layout.
        """
        tensors = [each for each in self._placement.tensors if each.allocation == allocation]
        exact = [each for each in tensors if each.offset == offset]
        inside = [each for each in tensors if extent(each)[0] <= offset < extent(each)[1]]
        if not exact and not inside:
            near = min(tensors, key=lambda each: min(abs(offset - edge) for edge in extent(each)))
            raise NotRecordedError(
                f"{kernel} is handed a pointer into no tensor, {offset - near.offset:+} bytes from {near.name}"
            )
        chosen = (exact or inside)[0]
        return Argument(pointer=True, tensor=chosen.name, delta=offset - chosen.offset)

    def _of_target(self, tensor: torch.Tensor, address: int) -> Argument:
        storage = tensor.untyped_storage()
        key = (storage.data_ptr(), storage.nbytes())
        if key not in self._own:
            if storage.nbytes() + sum(map(len, self._own.values())) > MOST_OWN:
                raise NotRecordedError(f"the target's own memory is more than {MOST_OWN >> 20} MiB")
            content = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage).cpu().numpy()
            self._check_no_addresses(content)
            self._own[key] = content.tobytes()
        return Argument(pointer=True, own=list(self._own).index(key), delta=address - key[0])

    def _check_no_addresses(self, content: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        """Raise NotRecordedError where memory holds addresses of kvcheck's: elsewhere they would lead nowhere."""
        words = content[: content.size // 8 * 8].view(np.uint64)
        for begin, end in zip(self._bases, self._ends, strict=True):
            if ((words >= begin) & (words < end)).any():
                raise NotRecordedError("memory of the target's own holds addresses, which are others when made again")
