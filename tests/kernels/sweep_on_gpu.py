"""A script: every fp32 bit pattern through the encoder on the GPU, printed as one digest a block of 2^24.

After the 256 blocks come the digests of all of bf16 and all of fp16. It runs in a process of its own, because Triton
chooses between interpreter and GPU once.
"""

from __future__ import annotations

import hashlib
import json

import torch

from kvcheck.kernels.sweep import encode

#: Patterns encoded at a time, and patterns a digest.
CHUNK, BLOCK = 1 << 28, 1 << 24


def digests() -> list[str]:
    """The first 16 hexadecimal digits of each block's SHA-256."""
    found = []
    for start in range(-(1 << 31), 1 << 31, CHUNK):
        patterns = torch.arange(start, start + CHUNK, dtype=torch.int64, device="cuda").to(torch.int32)
        codes = encode(patterns.view(torch.float32)).cpu().numpy()
        found += [digest(codes[at : at + BLOCK].tobytes()) for at in range(0, CHUNK, BLOCK)]
    # int32 counts negative patterns first; blocks are in the order of unsigned ones.
    return found[128:] + found[:128]


def halves() -> list[str]:
    """The digests of all 2^16 bf16 and fp16 patterns."""
    every = torch.arange(1 << 16, dtype=torch.int32, device="cuda").to(torch.int16)
    kinds = (torch.bfloat16, torch.float16)
    return [digest(encode(every.view(kind)).cpu().numpy().tobytes()) for kind in kinds]


def digest(data: bytes) -> str:
    """As the kept digests have it."""
    return hashlib.sha256(data).hexdigest()[:16]


if __name__ == "__main__":
    print(json.dumps(digests() + halves()))  # noqa: T201 - the script's answer
