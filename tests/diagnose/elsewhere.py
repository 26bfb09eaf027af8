"""Emulated kernels that read K or V from elsewhere: element offsets of one's own, anywhere in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from judge.emulate import Bytes, Floats, Indices, Kernel, Memory, amax_scale, e4m3

from kvcheck.addresses import byte_offsets
from kvcheck.draw import dtypes
from kvcheck.schema import ITEMSIZE, Placed, Placement, Tensor

#: Element offsets from a tensor's first element: (placement, tensor, token, head, dim) -> an array; None: as they are.
Offsets: TypeAlias = Callable[[Placement, Placed, Indices, Indices, Indices], Indices]

#: An offset that nothing lies at: read as zero.
NOTHING = -(1 << 50)


def gather(memory: Memory, tensor: Tensor, offsets: Offsets) -> Floats:
    """K or V `[tokens, heads, dim]` as those offsets give it."""
    placed = memory.placement.get(tensor)
    assert placed.dtype in ("bf16", "fp16", "fp32")
    token, head, dim = np.ogrid[tuple(slice(0, size) for size in placed.dims)]
    where = np.broadcast_to(offsets(memory.placement, placed, token, head, dim), placed.dims)
    item = ITEMSIZE[placed.dtype]
    raw = memory._gather(placed.allocation, byte_offsets(placed.offset + where * item, item))
    return dtypes.to_float32(raw.view(np.uint32 if item == 4 else np.uint16)[..., 0], placed.dtype)


def reads(
    offsets: Offsets, tensors: tuple[Tensor, ...] = ("k", "v"), encode: Callable[[Floats], Bytes] = e4m3
) -> Kernel:
    """A store that takes these tensors' elements from those offsets, and makes codes by `encode`."""

    def kernel(memory: Memory) -> None:
        sides: tuple[Tensor, Tensor] = ("k", "v")
        for tensor in sides:
            x = gather(memory, tensor, offsets) if tensor in tensors else memory.read(tensor)
            scale = amax_scale(x)
            with np.errstate(invalid="ignore", divide="ignore"):
                codes = encode(x / scale[:, :, None])
            for token, slot in enumerate(memory.slots):
                if slot >= 0:
                    memory.write(f"{tensor}_codes", int(slot), codes[token])
                    memory.write(f"{tensor}_scales", int(slot), scale[token])

    return kernel
