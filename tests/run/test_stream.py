"""The stream that a case's launches are on."""

from __future__ import annotations

import ctypes

import pytest
import torch

from kvcheck.run.stream import own_stream

pytestmark = pytest.mark.gpu


def test_waits_for_nobody_else_and_takes_work() -> None:
    """Two of them are two; neither waits for the default stream; what torch is told to run on one is run there."""
    device = torch.device("cuda", 0)
    one, other = own_stream(device), own_stream(device)
    assert len({0, one.cuda_stream, other.cuda_stream}) == 3
    flags = ctypes.c_uint()
    assert ctypes.CDLL("libcuda.so.1").cuStreamGetFlags(ctypes.c_void_p(one.cuda_stream), ctypes.byref(flags)) == 0
    assert flags.value == 1
    with torch.cuda.stream(one):
        assert torch.cuda.current_stream(device).cuda_stream == one.cuda_stream
        ones = torch.ones(1 << 20, device=device)
    one.synchronize()
    assert ones.sum().item() == 1 << 20
