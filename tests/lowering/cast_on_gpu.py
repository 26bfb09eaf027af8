"""Prints, as JSON, the digests of Triton's own cast of every fp32 pattern, then of all of bf16 and fp16. For a GPU.

The process's arch decides: TRITON_OVERRIDE_ARCH makes it another.
"""

from __future__ import annotations

import hashlib
import json

import torch
import triton

from kvcheck.kernels import conversions
from kvcheck.lowering.sweep import BLOCK, BLOCKS

SIZE = 1024


def digest(values: torch.Tensor) -> str:
    """The first 16 digits of the SHA-256 of the codes of `values`, on the GPU."""
    codes = torch.empty(values.numel(), dtype=torch.uint8, device="cuda")
    KERNEL[(values.numel() // SIZE,)](values, codes, SIZE=SIZE)
    return hashlib.sha256(codes.cpu().numpy().data).hexdigest()[:16]


KERNEL = triton.jit(conversions.cast)

if __name__ == "__main__":
    lower = torch.arange(BLOCK, dtype=torch.int32, device="cuda")
    every = torch.arange(1 << 16, dtype=torch.int32, device="cuda").to(torch.int16)
    found = [
        digest((lower | ((block if block < 128 else block - 256) << 24)).view(torch.float32)) for block in range(BLOCKS)
    ]
    found += [digest(every.view(torch.bfloat16)), digest(every.view(torch.float16))]
    print(json.dumps(found))  # noqa: T201 - the answer
