"""Real memory for a placement: allocate, upload what stands there before a launch, download what it left."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

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

    def __init__(self, placement: Placement, device: torch.device) -> None:
        """Allocate on `device`: on CUDA through the caching allocator, as engines do."""
        self.placement = placement
        self.device = device
        make = torch.empty if device.type == "cuda" else torch.zeros
        self._allocations = tuple(make(size, dtype=torch.uint8, device=device) for size in placement.allocations)

    def addresses(self) -> tuple[int, ...]:
        """Where each allocation lies, in bytes from the lowest."""
        bases = [allocation.data_ptr() for allocation in self._allocations]
        return tuple(base - min(bases) for base in bases)

    def upload(self, images: tuple[Bytes, ...]) -> None:
        """Write every byte of every allocation."""
        for allocation, image in zip(self._allocations, images, strict=True):
            allocation.copy_(torch.from_numpy(image))

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
