# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""A store whose scale and codes both come from approximate divisions, and how its rows are judged in blocks.

As a program it stores rows by the GPU, or by the interpreter, and prints as JSON what was exact, legal and wrong:
`python -m tests.lowering.approximate ROWS [cuda]`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass

if __name__ == "__main__" and "cuda" not in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import numpy.typing as npt
import torch
import triton
import triton.language as tl

from kvcheck import Computed, Contract
from kvcheck.formats.arithmetic import code_bounds, element_scales, legal_scales, right_codes, right_scales

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.uint8]

#: Elements of a row, and rows judged at a time.
DIM, BLOCK = 128, 1 << 15
APPROXIMATE = Contract(
    scale=Computed("token_head", maximum=448.0, eps=1e-10, derive="divide_approx"), apply="divide_approx"
)
EXACT = Contract(scale=Computed("token_head", maximum=448.0, eps=1e-10, derive="divide"), apply="divide")


@triton.jit
def encode(value):  # noqa: ANN001, ANN201, D103
    bits = value.to(tl.int32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    normal = ((magnitude + 0x0007FFFF + ((magnitude >> 20) & 1)) >> 20) - 960
    tiny = (magnitude.to(tl.float32, bitcast=True) + 16384.0).to(tl.int32, bitcast=True) - 0x46800000
    return tl.where(magnitude < 0x3C800000, tiny, tl.minimum(normal, 0x7E)) | ((bits >> 24) & 0x80)


@triton.jit
def store_rows(source, codes, scales, maximum, ROWS: tl.constexpr, DIM: tl.constexpr):  # noqa: ANN001, ANN201, N803, D103
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * DIM + tl.arange(0, DIM)[None, :]
    value = tl.load(source + at).to(tl.float32)
    # `/` of two run-time numbers is div.full.f32: within 2 ulp of the quotient, and not IEEE's.
    scale = tl.maximum(tl.max(tl.abs(value), axis=1), 1e-10) / maximum
    tl.store(codes + at, encode(value / scale[:, None]).to(tl.uint8))
    tl.store(scales + row, scale)


@dataclass
class Counts:
    """What became of codes and scales under a contract."""

    codes: int = 0
    legal: int = 0
    wrong: int = 0
    scales: int = 0
    scales_legal: int = 0
    scales_wrong: int = 0

    def add(self, contract: Contract, x: Floats, scales: Floats, codes: Codes) -> None:
        """Judge rows `x` `[rows, DIM]` by their emitted `scales` `[rows]` and `codes` `[rows, DIM]`."""
        rule = contract.scale
        assert isinstance(rule, Computed)
        rows, emitted = x[:, None, :], scales[:, None]
        right = right_scales(rule, rows)
        legal = legal_scales(rule, emitted, rows)
        same = emitted.view(np.uint32) == right.view(np.uint32)
        self.scales += emitted.size
        self.scales_legal += int((legal & ~same).sum())
        self.scales_wrong += int((~legal).sum())
        wide = element_scales(contract, np.where(legal, emitted, right), rows.shape)
        unlike = codes[:, None, :] != right_codes(contract, rows, wide)
        self.codes += codes.size
        some = rows[unlike][:, None, None], wide[unlike][:, None, None], codes[:, None, :][unlike][:, None, None]
        low, high = code_bounds(contract, some[0], some[1])
        within = (some[2] == low) | (some[2] == high)
        self.legal += int(within.sum())
        self.wrong += int((~within).sum())


def rows_of(block: int, rows: int) -> torch.Tensor:
    """Random bf16 rows `[rows, DIM]`, each of a magnitude of its own: the same on every machine of one torch."""
    generator = torch.Generator().manual_seed(448 + block)
    size = torch.exp2(torch.randint(-20, 11, (rows, 1), generator=generator).float())
    return (torch.randn(rows, DIM, generator=generator) * size).to(torch.bfloat16)


def stored(rows: torch.Tensor, device: str) -> tuple[Floats, Codes]:
    """The scales and codes that the kernel emits for `rows`."""
    source = rows.to(device)
    codes = torch.zeros(rows.shape, dtype=torch.uint8, device=device)
    scales = torch.zeros(len(rows), dtype=torch.float32, device=device)
    programs = 8 if device == "cuda" else 1024
    store_rows[(len(rows) // programs,)](source, codes, scales, 448.0, ROWS=programs, DIM=DIM)
    return scales.cpu().numpy(), codes.cpu().numpy()


def judged(total: int, device: str) -> dict[str, dict[str, int]]:
    """`total` rows, block by block, under the contract that declares the approximation and under one that doesn't."""
    found = {"approximate": Counts(), "exact": Counts()}
    for block, start in enumerate(range(0, total, BLOCK)):
        rows = rows_of(block, min(BLOCK, total - start))
        scales, codes = stored(rows, device)
        x = rows.float().numpy()
        found["approximate"].add(APPROXIMATE, x, scales, codes)
        found["exact"].add(EXACT, x, scales, codes)
    return {name: asdict(counts) for name, counts in found.items()}


if __name__ == "__main__":
    began = time.monotonic()
    answer = judged(int(sys.argv[1]), "cuda" if "cuda" in sys.argv else "cpu")
    sys.stderr.write(f"{time.monotonic() - began:.1f} s\n")
    print(json.dumps(answer))  # noqa: T201 - the answer
