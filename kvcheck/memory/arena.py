"""Real memory for a placement: allocate, upload what stands there before a launch, download what it left."""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt
import torch

from kvcheck.addresses import extent
from kvcheck.memory.fenced import allocate
from kvcheck.memory.fences import FENCES, Fenced
from kvcheck.memory.overrun import Table, fenced_tensors
from kvcheck.schema import Dtype, Placed, Placement

Bytes = npt.NDArray[np.uint8]

TORCH_DTYPES: dict[Dtype, torch.dtype] = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "int32": torch.int32,
    "int64": torch.int64,
}


class Memory:
    """The allocations of one case on one device. kvcheck owns every byte of them."""

    def __init__(self, placement: Placement, device: torch.device, fenced: tuple[int, ...] | None = None) -> None:
        """Allocate on `device`: on CUDA through the caching allocator, as engines do, unless the layout has fences.

        Where it has, `fenced` are the allocations that get one: all of them, if it is None.
        """
        self.placement = placement
        self.device = device
        side = FENCES.get(placement.layout)
        self._fenced: tuple[Fenced, ...] = ()
        if side is not None:
            made = [
                allocate(size, side if fenced is None or index in fenced else None, device)
                for index, size in enumerate(placement.allocations)
            ]
            self._fenced = tuple(fenced for fenced, _ in made)
            self._allocations = tuple(memory for _, memory in made)
        elif device.type == "cuda":
            self._allocations = tuple(
                torch.empty(size, dtype=torch.uint8, device=device) for size in placement.allocations
            )
        else:
            self._allocations = tuple(map(_amid_zeros, placement.allocations))

    def fences(self) -> Table | None:
        """What lies between fences, where the layout has any."""
        if not self._fenced:
            return None
        found = []
        for index, fenced in enumerate(self._fenced):
            inside = [tensor for tensor in self.placement.tensors if tensor.allocation == index]
            spans = [extent(tensor) for tensor in inside]
            start, stop = min(span[0] for span in spans), max(span[1] for span in spans)
            found.append(fenced_tensors(tuple(tensor.name for tensor in inside), fenced, start, stop))
        return Table(self.placement.layout, FENCES[self.placement.layout], tuple(found))

    def addresses(self) -> tuple[int, ...]:
        """Where each allocation lies, in bytes from the lowest."""
        bases = [allocation.data_ptr() for allocation in self._allocations]
        return tuple(base - min(bases) for base in bases)

    def mapped(self) -> tuple[tuple[int, int], ...]:
        """The mapped bytes around each allocation, in bytes from the lowest one, where the layout has fences."""
        lowest = min((fenced.address for fenced in self._fenced), default=0)
        return tuple((fenced.begin - lowest, fenced.end - lowest) for fenced in self._fenced)

    def upload(self, images: tuple[Bytes, ...]) -> None:
        """Write every byte of every allocation."""
        for allocation, image in zip(self._allocations, images, strict=True):
            allocation.copy_(torch.from_numpy(image))

    def write(self, allocation: int, offset: int, content: Bytes) -> None:
        """Write some bytes of an allocation, and no others."""
        self._allocations[allocation][offset : offset + len(content)].copy_(torch.from_numpy(content))

    def read(self, allocation: int, offset: int, length: int) -> bytes:
        """Some bytes of an allocation."""
        return self._allocations[allocation][offset : offset + length].cpu().numpy().tobytes()

    def download(self) -> tuple[Bytes, ...]:
        """Every byte of every allocation, as a copy on the host."""
        return tuple(allocation.cpu().numpy().copy() for allocation in self._allocations)

    def tensor(self, placed: Placed) -> torch.Tensor:
        """A placed tensor as torch sees it: a view of kvcheck's memory."""
        return self.strided(placed, placed.dims, placed.strides)

    def strided(
        self,
        placed: Placed,
        dims: tuple[int, ...],
        strides: tuple[int, ...],
        *,
        dtype: Dtype | None = None,
        offset: int | None = None,
    ) -> torch.Tensor:
        """Another view of a placed tensor's memory, `offset` bytes into its allocation (its own by default)."""
        kind = TORCH_DTYPES[dtype or placed.dtype]
        at = placed.offset if offset is None else offset
        view = torch.empty(0, dtype=kind, device=self.device)
        storage = self._allocations[placed.allocation].untyped_storage()
        return view.set_(storage, at // kind.itemsize, dims, strides)

    def span(self) -> tuple[tuple[int, int], ...]:
        """Begin and end address of every allocation, to tell kvcheck's memory from a target's own."""
        return tuple((a.data_ptr(), a.data_ptr() + a.numel()) for a in self._allocations)


#: Zeros on either side of an allocation on the CPU, which nothing else lies in: as far as a wrong stride leads.
SLACK = 4 << 20
_STEP = 512


def _amid_zeros(size: int) -> torch.Tensor:
    """Zeroed bytes whose neighbours are zeros that nobody owns, as in a fresh device's memory.

    The C library's heap would put its own book-keeping there: a kernel that writes a little too far would then die,
    some time later, of something else. Mapped, not allocated: what nobody touches then costs nothing.
    """
    whole = np.frombuffer(mmap.mmap(-1, SLACK + size + _STEP + SLACK), np.uint8)
    start = SLACK + -(whole.ctypes.data + SLACK) % _STEP
    return torch.from_numpy(whole[start : start + size])
