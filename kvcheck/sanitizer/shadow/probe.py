"""The self-test: accesses known to be bad must be caught, with their kind and line, and good ones must not be."""

from __future__ import annotations

import linecache
import re

import numpy as np

from kvcheck.sanitizer.shadow.watch import watch
from kvcheck.schema import Placed, Placement

_SIZE = 8
_MARK = re.compile(r"# (right|out-of-bounds|foreign|gap|uninitialised|stray)$")


def proof() -> str | None:
    """Why shadow memory does not see what this process's kernels do: one line, or None where it does."""
    from triton import __version__ as version  # noqa: PLC0415

    try:
        return _difference(version)
    except Exception as error:  # noqa: BLE001 - whatever an unknown interpreter raises
        said = str(error).splitlines()[0] if str(error) else ""
        return f"triton {version}: the self-test of shadow memory raised {type(error).__name__}: {said}"


def _difference(version: str) -> str | None:
    import torch  # noqa: PLC0415 - the interpreter takes its tensors
    from triton.runtime.interpreter import InterpretedFunction  # noqa: PLC0415 - private

    from kvcheck.kernels import accesses  # noqa: PLC0415 - imports triton

    placement = _placement()
    memory = torch.zeros(placement.allocations[0], dtype=torch.uint8)
    tensors = {}
    for placed in placement.tensors:
        view = torch.empty(0, dtype=torch.float32 if placed.dtype == "fp32" else torch.uint8)
        start = placed.offset // view.itemsize
        tensors[placed.name] = view.set_(memory.untyped_storage(), start, placed.dims, placed.strides)
    tensors["k"].copy_(torch.arange(1.0, 2 * _SIZE + 1).reshape(2, 1, _SIZE))
    rows = {"k_codes": np.array([0]), "v_codes": np.array([0])}
    with watch(placement, (memory.data_ptr(),), rows) as watched:
        watched.begin(1)
        InterpretedFunction(accesses.probe)[(1,)](*tensors.values(), SIZE=_SIZE)
    seen = {(record.line, record.kind) for record in watched.run().records}
    wanted = _wanted(accesses.__file__)
    right = [line for line, kind in wanted if kind == "right"]
    for line, kind in sorted(wanted):
        if kind != "right" and (line, kind) not in seen:
            return f"triton {version}: shadow memory missed the {kind} access at line {line} of its self-test"
    for line, kind in sorted(seen - wanted):
        what = "a right access" if line in right else f"line {line}"
        return f"triton {version}: shadow memory calls {what} of its self-test {kind}"
    # 1 ... 8 of K, which were loaded; 7 for the lanes that the mask left out, 1 for the one that it did not.
    stored = tensors["v_codes"][0, 0, 0].tolist()
    if stored != [2, *range(9, 9 + _SIZE - 1)]:
        return f"triton {version}: under shadow memory the self-test's kernel stored {stored}"
    return None


def _wanted(file: str) -> set[tuple[int, str]]:
    marks = ((number, _MARK.search(line.rstrip())) for number, line in enumerate(linecache.getlines(file), 1))
    return {(number, mark[1]) for number, mark in marks if mark}


def _placement() -> Placement:
    """K with a gap behind each row, V right behind K; codes of two slots each, of which the first is addressed."""
    item = 4
    k = Placed("k", 0, 0, "fp32", (2, 1, _SIZE), (2 * _SIZE, _SIZE, 1))
    v = Placed("v", 0, 3 * _SIZE * item, "fp32", (2, 1, _SIZE), (_SIZE, _SIZE, 1))
    codes = [
        Placed(name, 0, offset, "uint8", (2, 1, 1, _SIZE), (_SIZE, _SIZE, _SIZE, 1))
        for name, offset in (("k_codes", 512), ("v_codes", 768))
    ]
    return Placement("arena", (1024,), (k, v, *codes), (), 2, independence=False)
