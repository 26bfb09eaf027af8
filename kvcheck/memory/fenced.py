"""Fenced memory: one element too far kills the process at once and at full speed; no sanitizer is needed.

On the CPU a fence is pages without access (`mmap`, `mprotect`). On CUDA it is reserved addresses that no memory is
mapped at (`cuMemAddressReserve`, `cuMemMap`), by way of NVIDIA's cuda-bindings.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import numpy as np
import torch

from kvcheck.memory.fences import Fenced, Side

#: Bytes of each fence on the CPU, and on CUDA, on either side: further than a wrong stride leads. Only addresses.
HOST_FENCE = 1 << 28
CUDA_FENCE = 1 << 30

#: Bytes that are mapped on either side of memory without a fence, for a kernel to go astray in unharmed.
ROOM = 1 << 26

_NO_ACCESS, _READ_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE
_MAP_NORESERVE = 0x4000
_FAILED = ctypes.c_void_p(-1).value


def allocate(size: int, side: Side | None, device: torch.device) -> tuple[Fenced, torch.Tensor]:
    """`size` bytes (one at least) with a fence at that side, and as a uint8 tensor. Mapped until the process ends.

    Without a side, no fence is near: `ROOM` bytes are mapped before them and behind.
    """
    fenced = _on_cuda(max(size, 1), side, device) if device.type == "cuda" else _on_host(max(size, 1), side)
    if device.type == "cuda":
        return fenced, torch.as_tensor(_CudaArray(fenced), device=device)
    buffer = (ctypes.c_uint8 * fenced.size).from_address(fenced.address)
    return fenced, torch.from_numpy(np.ctypeslib.as_array(buffer))


def _needed(size: int, side: Side | None) -> int:
    """The bytes that are to be mapped, before they are rounded up to pages."""
    return size if side is not None else ROOM + size + ROOM


def _placed(size: int, side: Side | None, low: int, begin: int, room: int, high: int) -> Fenced:
    """Bytes at the one end or the other of `room` mapped bytes at `begin`, or amid them."""
    address = begin + {"end": room - size, "begin": 0, None: ROOM}[side]
    return Fenced(address, size, low, begin, begin + room, high)


def _on_host(size: int, side: Side | None) -> Fenced:
    room = -(-_needed(size, side) // mmap.PAGESIZE) * mmap.PAGESIZE
    whole = HOST_FENCE + room + HOST_FENCE
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    low = libc.mmap(None, whole, _NO_ACCESS, flags, -1, 0)
    if low == _FAILED or libc.mprotect(low + HOST_FENCE, room, _READ_WRITE):
        raise MemoryError(f"no {whole} bytes of addresses for a fence: {os.strerror(ctypes.get_errno())}")
    return _placed(size, side, low, low + HOST_FENCE, room, low + whole)


class _CudaArray:
    """Device memory as torch takes it, without a copy (the CUDA array interface, version 3)."""

    def __init__(self, fenced: Fenced) -> None:
        self.__cuda_array_interface__ = {
            "shape": (fenced.size,),
            "typestr": "|u1",
            "data": (fenced.address, False),
            "version": 3,
        }


def _on_cuda(size: int, side: Side | None, device: torch.device) -> Fenced:
    from cuda.bindings import driver  # noqa: PLC0415 - an extra, and only where there is a GPU

    torch.cuda.current_stream(device).synchronize()  # the driver's calls need the context that torch makes
    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = device.index or 0
    smallest = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    granule = int(_done(driver.cuMemGetAllocationGranularity(properties, smallest)))
    room = -(-_needed(size, side) // granule) * granule
    whole = CUDA_FENCE + room + CUDA_FENCE
    low = int(_done(driver.cuMemAddressReserve(whole, granule, 0, 0)))
    memory = _done(driver.cuMemCreate(room, properties, 0))
    _done(driver.cuMemMap(low + CUDA_FENCE, room, 0, memory, 0))
    access = driver.CUmemAccessDesc()
    access.location = properties.location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    _done(driver.cuMemSetAccess(low + CUDA_FENCE, room, [access], 1))
    return _placed(size, side, low, low + CUDA_FENCE, room, low + whole)


def _done(answer: tuple[Any, ...]) -> Any:
    """What a call of the driver gives beside its status. Raises MemoryError where that is not success."""
    status, *rest = answer
    if getattr(status, "value", status) != 0:
        raise MemoryError(f"the driver made no fenced memory: {status}")
    return rest[0] if rest else None
