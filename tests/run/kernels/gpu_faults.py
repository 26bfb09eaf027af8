"""kvcheck's store, but for four numbers of tokens at which it goes wrong on the GPU."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import torch
import triton
import triton.language as tl

import kvcheck
from kvcheck import Cache
from kvcheck.kernels.store import CONTRACT, launch


@triton.jit
def spin(flag):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201 - a Triton kernel's
    """Wait for what never comes."""
    while tl.load(flag, volatile=True) == 0:
        pass


@triton.jit
def wild(where):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201 - a Triton kernel's
    """Store far outside of any allocation."""
    tl.store(where + tl.program_id(0).to(tl.int64) + (1 << 44), 1)


@triton.jit(debug=True)  # type: ignore[untyped-decorator, unused-ignore]
def asserts(where):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201 - a Triton kernel's
    """Assert what is not so."""
    tl.device_assert(tl.load(where) == 1, "not so")


@kvcheck.store_target("gpu-faults", contract=CONTRACT)
def gpu_faults(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Go wrong on the GPU at two to five tokens."""
    if len(k) == 2:
        wild[(1,)](torch.zeros(1, dtype=torch.int32, device=k.device))
    if len(k) == 3:
        spin[(1,)](torch.zeros(1, dtype=torch.int32, device=k.device))
    if len(k) == 4:
        asserts[(1,)](torch.zeros(1, dtype=torch.int32, device=k.device))
        torch.cuda.synchronize(k.device)
    if len(k) == 5:
        torch.empty(1 << 42, dtype=torch.uint8, device=k.device)
    launch(k, v, slots, cache)
