"""What one launch left in the addressed rows, as arrays, and what makes an emission unfit to be judged."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from kvcheck.emission import STORED, change_problem, launch_problem, row_array, scale_values
from kvcheck.judge.subject import Bytes, Floats, Rows, Side, Subject
from kvcheck.schema import ITEMSIZE, Emission, Launch, Placed


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
    planned = launch_problem(emission.launches, emission.case.cross)
    if planned:
        return planned
    placement = emission.placement
    expected = {t.name: _row_bytes(t) * len(rows.tokens) for t in placement.tensors if t.name in STORED}
    for index, launch in enumerate(emission.launches, start=1):
        found = {name: len(data) for name, data in launch.rows.items()}
        if found != expected:
            return f"launch {index} holds rows of {found} bytes; expected {expected}"
        wrong = change_problem(placement, launch) or _torn(launch, rows)
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


def _row_bytes(tensor: Placed) -> int:
    return prod(tensor.dims[2:]) * ITEMSIZE[tensor.dtype]


def _array(launch: Launch, tensor: Placed, rows: Rows) -> Bytes:
    """The bytes of a tensor's judged rows: uint8 `[u, *a row's dims, item]`."""
    data = row_array(launch, tensor, len(rows.tokens))
    return data if len(rows.judged) == len(rows.tokens) else data[rows.judged]


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
