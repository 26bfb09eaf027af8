"""A tiny store kernel in numpy, run in memory laid out as a placement says, and the emission it leaves.

It shares no arithmetic with the judge where it can: codes come from ml_dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from kvcheck.addresses import byte_offsets, element_offsets, row_offsets
from kvcheck.contract import Accepts, Computed, Contract, Form
from kvcheck.draw import dtypes
from kvcheck.draw.image import images
from kvcheck.memory.place import place
from kvcheck.schema import ITEMSIZE, Case, Change, Emission, Launch, Placed, Placement, Poison, Prefill, Tensor

Bytes: TypeAlias = npt.NDArray[np.uint8]
Floats: TypeAlias = npt.NDArray[np.float32]
Indices: TypeAlias = npt.NDArray[np.int64]

#: The seed's contract: one scale a (token, head), amax / 448.
COMPUTED = Contract(scale=Computed("token_head"))

PLAN: tuple[tuple[Prefill, Poison], ...] = (("A", "A"), ("B", "B"), ("C", "A"), ("A", "A"))


class Memory:
    """All allocations of one launch. Addresses are relative to the lowest; reads outside give `outside` bytes."""

    def __init__(
        self, arrays: list[Bytes], placement: Placement, launch: int, outside: Callable[[Indices], Bytes] | None = None
    ) -> None:
        """`arrays` are written in place; `launch` counts from 1. Without `outside`, zeros lie there."""
        self.arrays = arrays
        self._outside = outside or (lambda offsets: np.zeros(offsets.shape, np.uint8))
        self.placement = placement
        self.launch = launch
        self.slots: Indices = self._integers("slots")

    def read(self, tensor: str, strides: tuple[int, ...] | None = None) -> Floats:
        """K or V as fp32 `[tokens, heads, dim]`, with its own strides or others."""
        placed = self.placement.get(tensor)
        if strides is not None:
            placed = Placed(placed.name, placed.allocation, placed.offset, placed.dtype, placed.dims, strides)
        assert placed.dtype in ("bf16", "fp16", "fp32")
        raw = self._gather(placed.allocation, byte_offsets(element_offsets(placed), ITEMSIZE[placed.dtype]))
        return dtypes.to_float32(raw.view(np.uint32 if placed.dtype == "fp32" else np.uint16)[..., 0], placed.dtype)

    def write(self, name: str, slot: int, data: npt.NDArray[np.generic]) -> None:
        """Write one row of codes or scales."""
        placed = self.placement.get(name)
        offsets = byte_offsets(row_offsets(placed, np.array([slot])), ITEMSIZE[placed.dtype])
        raw = np.ascontiguousarray(data).view(np.uint8)
        self.arrays[placed.allocation][offsets.ravel()] = raw.ravel()

    def row(self, name: str, slot: int) -> Bytes:
        """The bytes of one row of codes or scales, flat."""
        placed = self.placement.get(name)
        offsets = byte_offsets(row_offsets(placed, np.array([slot])), ITEMSIZE[placed.dtype])
        return self.arrays[placed.allocation][offsets.ravel()]

    def flip(self, name: str, index: int, mask: int = 0xFF) -> None:
        """Flip bits of the byte `index` bytes after a tensor's first."""
        placed = self.placement.get(name)
        self.arrays[placed.allocation][placed.offset + index] ^= np.uint8(mask)

    def _gather(self, allocation: int, offsets: Indices) -> Bytes:
        array = self.arrays[allocation]
        inside = (offsets >= 0) & (offsets < len(array))
        found: Bytes = np.where(inside, array[np.where(inside, offsets, 0)], self._outside(offsets))
        return np.ascontiguousarray(found)

    def _integers(self, name: str) -> Indices:
        placed = self.placement.get(name)
        raw = self._gather(placed.allocation, byte_offsets(element_offsets(placed), ITEMSIZE[placed.dtype]))
        return raw.view(np.int32 if placed.dtype == "int32" else np.int64)[..., 0].astype(np.int64)


Kernel: TypeAlias = Callable[[Memory], None]


def e4m3(values: Floats) -> Bytes:
    """Codes of values that are clipped first, so that they saturate. Every NaN is 0x7F."""
    with np.errstate(invalid="ignore"):
        codes = np.clip(values, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    return np.where(np.isnan(values), np.uint8(0x7F), codes)


def amax_scale(x: Floats) -> Floats:
    """The IEEE quotient of each row's largest magnitude and 448."""
    magnitudes = np.where(np.isnan(x), np.float32(0), np.abs(x))
    return np.asarray(magnitudes.max(axis=2) / np.float32(448), np.float32)


def store(memory: Memory, strides: dict[str, tuple[int, ...]] | None = None) -> None:
    """Store every token whose slot is not negative, with one scale a (token, head)."""
    sides: tuple[Tensor, Tensor] = ("k", "v")
    for tensor in sides:
        x = memory.read(tensor, (strides or {}).get(tensor))
        scale = amax_scale(x)
        with np.errstate(invalid="ignore", divide="ignore"):
            codes = e4m3(x / scale[:, :, None])
        for token, slot in enumerate(memory.slots):
            if slot >= 0:
                memory.write(f"{tensor}_codes", int(slot), codes[token])
                memory.write(f"{tensor}_scales", int(slot), scale[token])


def given_store(k_scale: float, v_scale: float) -> Kernel:
    """Return a kernel that divides by these scales and stores none."""

    def kernel(memory: Memory) -> None:
        for tensor, scale in (("k", k_scale), ("v", v_scale)):
            codes = e4m3(memory.read(tensor) / np.float32(scale))
            for token, slot in enumerate(memory.slots):
                if slot >= 0:
                    memory.write(f"{tensor}_codes", int(slot), codes[token])

    return kernel


def emulate(
    kernel: Kernel = store,
    case: Case | None = None,
    contract: Contract = COMPUTED,
    form: Form | None = None,
    launches: int = 3,
    outside: Callable[[Indices], Bytes] | None = None,
    *,
    cuda: bool = True,
) -> Emission:
    """Run a kernel as a case's process would, launch for launch, and say what it did.

    `outside` are the bytes at offsets that an allocation does not have: zeros without it. `cuda` says whose `pooled`
    layout is meant.
    """
    case = Case() if case is None else case
    form = Form() if form is None else form
    placement = place(case, contract, form, Accepts(), cuda=cuda and case.layout == "pooled")
    made = tuple(_launch(kernel, case, contract, placement, index, None, outside) for index in range(launches))
    if case.cross != "none":
        redrawn: Tensor = "k" if case.cross == "k" else "v"
        made = (*made, _launch(kernel, case, contract, placement, launches, redrawn, outside))
    bases = np.cumsum([0, *(size + 4096 for size in placement.allocations)])
    return Emission(
        case=case,
        contract=contract,
        form=form,
        placement=placement,
        addresses=tuple(int(base) for base in bases[:-1]),
        launches=made,
        copies=(),
        received=(),
        device="emulated",
    )


def _launch(
    kernel: Kernel,
    case: Case,
    contract: Contract,
    placement: Placement,
    index: int,
    redrawn: Tensor | None,
    outside: Callable[[Indices], Bytes] | None,
) -> Launch:
    prefill, poison = PLAN[index] if redrawn is None else PLAN[0]
    before = images(placement, case, contract, prefill, poison, redrawn)
    memory = Memory([array.copy() for array in before], placement, index + 1, outside)
    slots = memory.slots[memory.slots >= 0]
    kernel(memory)
    addressed = [np.zeros(len(array), np.bool_) for array in before]
    rows = {}
    for name in ("k_codes", "v_codes", "k_scales", "v_scales"):
        placed = placement.find(name)
        if placed is not None:
            offsets = byte_offsets(row_offsets(placed, slots), ITEMSIZE[placed.dtype])
            rows[name] = memory.arrays[placed.allocation][offsets].tobytes()
            addressed[placed.allocation][offsets.ravel()] = True
    changes = []
    for allocation, (old, new) in enumerate(zip(before, memory.arrays, strict=True)):
        unlike = np.flatnonzero((old != new) & ~addressed[allocation])
        changes += [Change(allocation, run[0], new[run].tobytes()) for run in _runs(unlike)]
    return Launch(prefill, poison, rows, tuple(changes), redrawn)


def _runs(positions: Indices) -> list[list[int]]:
    """Positions in ascending order, as runs without a gap."""
    grouped = groupby(enumerate(positions.tolist()), key=lambda pair: pair[1] - pair[0])
    return [[position for _, position in group] for _, group in grouped]
