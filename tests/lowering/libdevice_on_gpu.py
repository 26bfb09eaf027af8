"""Prints, as JSON, in how many results each function of libdevice differs from its model, and where first. On a GPU."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
import triton

from lowering import libdevice_kernels as kernels

SIZE, COUNT = 1024, 1 << 24


def checked(folder: Path) -> dict[str, list[object]]:
    """For each function and type of operand: how many results differ; the first's operands, result, and the model's."""
    found: dict[str, list[object]] = {}
    for of, to, names in kernels.GROUPS:
        pair = kernels.pairs(COUNT, of)
        given = [torch.from_numpy(each).cuda() for each in pair]
        for name in names:
            results = torch.empty(COUNT, dtype=getattr(torch, np.dtype(to).name), device="cuda")
            triton.jit(kernels.made(folder, name))[(COUNT // SIZE,)](*given, results, SIZE=SIZE)
            got, expected = results.cpu().numpy(), kernels.modelled(name, *pair)
            wrong = np.flatnonzero(~kernels.same(got, expected))
            first = [str(each[at]) for at in wrong[:1] for each in (*pair, got, expected)]
            found[f"{name} {of.__name__}"] = [int(wrong.size), *first]
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        print(json.dumps(checked(Path(made))))  # noqa: T201 - the answer
