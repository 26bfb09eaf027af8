"""A stream of a case's own, made by the driver itself."""

from __future__ import annotations

import ctypes

import torch

#: CU_STREAM_NON_BLOCKING: what is launched on it does not wait for the legacy default stream.
_NON_BLOCKING = 1


def own_stream(device: torch.device) -> torch.cuda.ExternalStream:
    """A new non-blocking stream on `device`, which lives as long as the process. Raises RuntimeError.

    `torch.cuda.Stream` would be one of a pool, and the first of them costs the creation of all: more than a hundred,
    each by calls that exclude every other process on the GPU.
    """
    torch.cuda.synchronize(device)  # the device's context is this thread's from here on
    handle = ctypes.c_void_p()
    error = ctypes.CDLL("libcuda.so.1").cuStreamCreate(ctypes.byref(handle), _NON_BLOCKING)
    if error or handle.value is None:
        raise RuntimeError(f"a stream could not be created: CUDA error {error}")
    return torch.cuda.ExternalStream(handle.value, device)
