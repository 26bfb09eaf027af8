"""What one launch left in the addressed rows, as arrays, and what makes an emission unfit to be judged."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from kvcheck.draw import dtypes
from kvcheck.judge.subject import Bytes, Floats, Rows, Side, Subject
from kvcheck.schema import ITEMSIZE, Emission, Launch, Placed, Placement

#: The prefill and poison of each launch. The fourth is made only where the first and third differ.
PLAN = (("A", "A"), ("B", "B"), ("C", "A"), ("A", "A"))

ROW_TENSORS = ("k_codes", "v_codes", "k_scales", "v_scales")


@dataclass(frozen=True)
class Emitted:
    """One launch's bytes of K or V: `codes` uint8 `[u, heads, dim]`; `scale_bytes` uint8 `[u, *groups, item]`.

    `u` counts `Rows.judged`. `scale` is fp32 `[u, *groups]`. Both scale arrays are None where none are stored.
    """

    codes: Bytes
    scale_bytes: Bytes | None
    scale: Floats | None


def problem(emission: Emission, rows: Rows) -> str:
    """Why an emission cannot be judged, in one line; empty where it can."""
    plain = tuple((launch.prefill, launch.poison) for launch in emission.launches if launch.redrawn is None)
    if plain not in (PLAN[:3], PLAN):
        return f"{len(plain)} launches with prefill and poison {plain}; expected {PLAN[:3]} and perhaps {PLAN[3]}"
    crossed = [launch.redrawn for launch in emission.launches if launch.redrawn is not None]
    if crossed != ([] if emission.case.cross == "none" else [emission.case.cross]):
        return f"launches with {crossed} redrawn; the case says cross={emission.case.cross}"
    placement = emission.placement
    expected = {t.name: _row_bytes(t) * len(rows.tokens) for t in placement.tensors if t.name in ROW_TENSORS}
    for index, launch in enumerate(emission.launches, start=1):
        found = {name: len(data) for name, data in launch.rows.items()}
        if found != expected:
            return f"launch {index} holds rows of {found} bytes; expected {expected}"
        wrong = _bad_change(placement, launch) or _torn(launch, rows)
        if wrong:
            return f"launch {index}: {wrong}"
    return ""


def emitted(launch: Launch, side: Side, subject: Subject) -> Emitted:
    """The judged rows of one side of a launch that `problem` found none in."""
    rows = subject.rows
    codes = _array(launch, side.placed, rows)[..., 0]
    if side.scales is None:
        return Emitted(codes, None, None)
    raw = _array(launch, side.scales, rows)
    return Emitted(codes, raw, scale_values(raw, side.scales))


def scale_values(raw: Bytes, placed: Placed) -> Floats:
    """Stored scales as fp32: `raw` uint8 `[..., item]`. An unsigned byte is ue8m0: 2^(byte - 127), 255 is NaN."""
    if placed.dtype == "uint8":
        exponent = raw[..., 0].astype(np.int32)
        values: Floats = np.ldexp(np.float32(1), np.minimum(exponent, 254) - 127).astype(np.float32)
        values[exponent == 255] = np.nan
        return values
    kind = np.uint32 if placed.dtype == "fp32" else np.uint16
    bits = np.ascontiguousarray(raw).view(kind)[..., 0]
    assert placed.dtype in ("bf16", "fp16", "fp32")
    return dtypes.to_float32(bits, placed.dtype)


def _row_bytes(tensor: Placed) -> int:
    return prod(tensor.dims[2:]) * ITEMSIZE[tensor.dtype]


def _array(launch: Launch, tensor: Placed, rows: Rows) -> Bytes:
    """The bytes of a tensor's judged rows: uint8 `[u, *a row's dims, item]`."""
    shape = (len(rows.tokens), *tensor.dims[2:], ITEMSIZE[tensor.dtype])
    data = np.frombuffer(launch.rows[tensor.name], np.uint8).reshape(shape)
    return data if len(rows.judged) == len(rows.tokens) else data[rows.judged]


def _bad_change(placement: Placement, launch: Launch) -> str:
    for change in launch.changes:
        if not 0 <= change.allocation < len(placement.allocations):
            return f"a change in allocation {change.allocation}, of {len(placement.allocations)}"
        size = placement.allocations[change.allocation]
        if change.offset < 0 or change.offset + len(change.data) > size:
            return f"a change at bytes {change.offset} to {change.offset + len(change.data)} of {size}"
    return ""


def _torn(launch: Launch, rows: Rows) -> str:
    """Tokens that share a slot share its bytes: an emission that lists unlike bytes for them is not one launch's."""
    if len(rows.judged) == len(rows.tokens):
        return ""
    for name, data in launch.rows.items():
        listed = np.frombuffer(data, np.uint8).reshape(len(rows.tokens), -1)  # tokens share slots: there are some
        for row in np.flatnonzero(rows.shared):
            same = listed[rows.sharing(int(row))]
            if (same != same[0]).any():
                return f"{name} holds unlike bytes for one slot, {rows.slots[rows.judged[row]]}"
    return ""
