"""Reading an emission: which launches it holds, which tensors a target fills, and their bytes as arrays.

Neutral ground between `run`, which makes emissions, and the stages that read them: a launch's rows hold each filled
tensor's addressed rows in token order, tokens that are skipped left out, and nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvcheck.draw import dtypes
from kvcheck.schema import ITEMSIZE, Launch, Placed, Placement, Poison, Prefill, Tensor

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

TENSORS: tuple[Tensor, Tensor] = ("k", "v")

#: The tensors that a store target fills, where the case has them, and those that a load target fills.
STORED = ("k_codes", "v_codes", "k_scales", "v_scales")
LOADED = ("out_k", "out_v")


class Step(NamedTuple):
    """What stands in memory before one launch, and which tensor holds other values than in the other launches."""

    prefill: Prefill
    poison: Poison
    redrawn: Tensor | None = None


#: The launches of every case: the prefills differ from each other in every byte.
LAUNCHES = (Step("A", "A"), Step("B", "B"), Step("C", "A"))

#: What follows where launches 1 and 3 differ: the first again.
REPEAT = LAUNCHES[0]

PREFILLS: tuple[Prefill, ...] = tuple(step.prefill for step in LAUNCHES)


def launch_problem(launches: tuple[Launch, ...], cross: str) -> str:
    """Why an emission's launches are not those of a case with this `cross` axis, in one line; empty where they are."""
    made = tuple(Step(launch.prefill, launch.poison, launch.redrawn) for launch in launches)
    plain = tuple(step for step in made if step.redrawn is None)
    if plain not in (LAUNCHES, (*LAUNCHES, REPEAT)):
        said = " ".join(f"{step.prefill}{step.poison}" for step in plain) or "none"
        return f"{len(plain)} launches, their prefill and poison {said}; expected AA BB CA and perhaps AA"
    crossed = [step.redrawn for step in made if step.redrawn is not None]
    if crossed != ([] if cross == "none" else [cross]):
        return f"launches with {crossed} redrawn; the case says cross={cross}"
    return ""


def change_problem(placement: Placement, launch: Launch) -> str:
    """Why the changes of a launch cannot be: bytes that no allocation has. Empty where they can."""
    for change in launch.changes:
        if not 0 <= change.allocation < len(placement.allocations):
            return f"a change in allocation {change.allocation}, of {len(placement.allocations)}"
        size = placement.allocations[change.allocation]
        if change.offset < 0 or change.offset + len(change.data) > size:
            return f"a change at bytes {change.offset} to {change.offset + len(change.data)} of {size}"
    return ""


def row_array(launch: Launch, tensor: Placed, rows: int) -> Bytes:
    """A cache tensor's addressed rows: uint8 `[rows, *a row's dims, item]`. Raises ValueError for other sizes."""
    shape = (rows, *tensor.dims[2:], ITEMSIZE[tensor.dtype])
    return np.frombuffer(launch.rows[tensor.name], np.uint8).reshape(shape)


def scale_values(raw: Bytes, placed: Placed) -> Floats:
    """Stored scales as fp32: `raw` uint8 `[..., item]`. An unsigned byte is ue8m0: 2^(byte - 127), 255 is NaN."""
    if placed.dtype == "uint8":
        exponent = raw[..., 0].astype(np.int32)
        values: Floats = np.ldexp(np.float32(1), np.minimum(exponent, 254) - 127).astype(np.float32)
        values[exponent == 255] = np.nan
        return values
    assert placed.dtype in ("bf16", "fp16", "fp32")
    bits = np.ascontiguousarray(raw).view(np.uint32 if placed.dtype == "fp32" else np.uint16)[..., 0]
    return dtypes.to_float32(bits, placed.dtype)


def scale_bytes(values: Floats, placed: Placed) -> Bytes:
    """`scale_values` undone, for scales that the tensor's dtype holds exactly: uint8 `[..., item]`."""
    if placed.dtype == "uint8":
        mantissa, exponent = np.frexp(values)
        found = np.where(np.isnan(mantissa), 255, exponent.astype(np.int64) + 126)
        return np.clip(found, 0, 255).astype(np.uint8)[..., None]
    assert placed.dtype in ("bf16", "fp16", "fp32")
    bits = np.ascontiguousarray(dtypes.from_float32(values, placed.dtype))
    return bits[..., None].view(np.uint8)
