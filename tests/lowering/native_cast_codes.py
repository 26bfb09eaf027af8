"""Prints, as JSON, how `native-cast`'s codes differ from `store`'s on one case for each arch. Run as a program.

Interpreted, or on the GPU with `cuda` as its argument, where the arch is that of the process.
"""

from __future__ import annotations

import json
import os
import sys

CUDA = sys.argv[1:] == ["cuda"]
if not CUDA:
    os.environ["TRITON_INTERPRET"] = "1"

import numpy as np  # noqa: E402 - the interpreter's switch comes first
import torch  # noqa: E402

from kvcheck.api import Cache, Side, StoreTarget  # noqa: E402
from kvcheck.kernels.native_cast import native_cast  # noqa: E402
from kvcheck.kernels.store import store  # noqa: E402
from kvcheck.lowering.interpreter_cast import install  # noqa: E402

TOKENS, HEADS, DIM = 64, 3, 128


def stored(target: StoreTarget, dtype: torch.dtype, *, two: bool) -> list[torch.Tensor]:
    """Codes and scales of K and V; `two` makes every scale a power of two."""
    device = "cuda" if CUDA else "cpu"
    generator = torch.Generator().manual_seed(5)
    rows = [torch.randn(TOKENS, HEADS, DIM, generator=generator) * size for size in (5.0, 0.01)]
    rows[0][0, 0, :6] = torch.tensor([0.0, -0.0, float("nan"), float("-nan"), 1e-30, -1e-30])
    if two:
        rows = [row.clamp(-440, 440).index_fill_(2, torch.tensor([DIM - 1]), 448.0) for row in rows]
    sides = [
        {
            "codes": torch.zeros(TOKENS, HEADS, DIM, dtype=torch.uint8, device=device),
            "scales": torch.zeros(TOKENS, HEADS, device=device),
        }
        for _ in rows
    ]
    cache = Cache(TOKENS, 1, HEADS, DIM, DIM, Side("k", sides[0], {}), Side("v", sides[1], {}))
    k, v = (row.to(dtype).to(device) for row in rows)
    target(k, v, torch.arange(TOKENS, device=device), cache)
    return [side[name].cpu() for side in sides for name in ("codes", "scales")]


def differences(dtype: torch.dtype, *, two: bool) -> dict[str, int | list[int]]:
    """How many codes differ, by how many steps of magnitude, and how many scales differ."""
    ours, theirs = stored(store, dtype, two=two), stored(native_cast, dtype, two=two)
    codes = [np.concatenate([side[index].numpy().ravel() for index in (0, 2)]).astype(int) for side in (ours, theirs)]
    wrong = np.flatnonzero(codes[0] != codes[1])
    scales = sum(int((ours[index].view(torch.int32) != theirs[index].view(torch.int32)).sum()) for index in (1, 3))
    steps = sorted({int(step) for step in (codes[1] - codes[0])[wrong]})
    return {"of": codes[0].size, "wrong": wrong.size, "steps": steps, "scales": scales}


def main() -> None:
    """Every arch and dtype."""
    found = {}
    for arch in ["native"] if CUDA else ["sm_80", "sm_89", "sm_90"]:
        if not CUDA:
            install(arch)
        for dtype in (torch.bfloat16, torch.float32):
            for two in (False, True):
                name = f"{arch} {str(dtype).removeprefix('torch.')} {'powers' if two else 'any'}"
                try:
                    found[name] = differences(dtype, two=two)
                except Exception as error:  # noqa: BLE001 - said
                    found[name] = {"error": str(error)}  # type: ignore[dict-item]
    print(json.dumps(found))  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
