"""Store kernels in numpy that put right bytes in wrong places, and what the faults of writes say of what they leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
from judge.emulate import COMPUTED, Memory, amax_scale, e4m3, emulate

from kvcheck.contract import Contract, Form
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.family import by_name
from kvcheck.diagnose.writes import WRITES
from kvcheck.judge import judge
from kvcheck.schema import ITEMSIZE, Case, Emission, Placed

Indices = npt.NDArray[np.int64]
#: Where a kernel takes a tensor to lie, and to which (page, row in it) it takes a slot to go.
Lies = Callable[[Memory, Placed], Placed]
Goes = Callable[[int, int], tuple[int, int] | None]


def as_placed(memory: Memory, placed: Placed) -> Placed:  # noqa: ARG001 - one signature for all
    """The tensor, as it lies."""
    return placed


def to_slot(slot: int, page: int) -> tuple[int, int] | None:
    """The page and row of a slot; none of a negative one."""
    return divmod(slot, page) if slot >= 0 else None


def strides(*used: int, begin: int = 0) -> Lies:
    """The tensor with other strides, and `begin` elements from its own begin."""

    def lies(memory: Memory, placed: Placed) -> Placed:  # noqa: ARG001
        offset = placed.offset + begin * ITEMSIZE[placed.dtype]
        return msgspec.structs.replace(placed, strides=(*used, *placed.strides[len(used) :]), offset=offset)

    return lies


@dataclass(frozen=True)
class Store:
    """A right store, but for where it puts codes and scales of `sides`."""

    codes: Lies = as_placed
    scales: Lies = as_placed
    code_slot: Goes = to_slot
    scale_slot: Goes = to_slot
    sides: Sequence[str] = ("k", "v")

    def __call__(self, memory: Memory) -> None:
        """Store every token."""
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = amax_scale(x)
            with np.errstate(invalid="ignore", divide="ignore"):
                codes = e4m3(x / scale[:, :, None])
            for kind, lies, goes, data in (
                ("codes", self.codes, self.code_slot, codes),
                ("scales", self.scales, self.scale_slot, scale),
            ):
                placed = memory.placement.get(f"{tensor}_{kind}")
                used = lies(memory, placed) if tensor in self.sides else placed
                for token, slot in enumerate(memory.slots.tolist()):
                    place = (goes if tensor in self.sides else to_slot)(slot, placed.dims[1])
                    if place is not None:
                        put(memory, used, place, data[token])


def put(memory: Memory, placed: Placed, place: tuple[int, int], data: npt.NDArray[np.generic]) -> None:
    """Write a row of codes or scales at a page and a row in it, whether these exist or not; never outside memory."""
    item = ITEMSIZE[placed.dtype]
    at = np.int64(placed.offset + (place[0] * placed.strides[0] + place[1] * placed.strides[1]) * item)
    offsets: Indices = np.asarray(at)
    for size, stride in zip(placed.dims[2:], placed.strides[2:], strict=True):
        offsets = offsets[..., None] + np.arange(size, dtype=np.int64) * stride * item
    offsets = (offsets[..., None] + np.arange(item)).ravel()
    array = memory.arrays[placed.allocation]
    inside = (offsets >= 0) & (offsets < len(array))
    array[offsets[inside]] = np.ascontiguousarray(data).view(np.uint8).ravel()[inside]


def emitted(
    kernel: Callable[[Memory], None],
    case: Case,
    form: Form | None = None,
    contract: Contract = COMPUTED,
    launches: int = 3,
) -> Emission:
    """What a kernel leaves, which the judge condemns."""
    emission = emulate(kernel, case, contract, form, launches)
    assert judge(emission).outcome in ("mismatch", "violation")
    return emission


def said(emission: Emission) -> list[Explanation]:
    """All that the faults of writes say, what explains most first, K before V."""
    facts = Facts(emission, emission.contract, judge(emission))  # type: ignore[arg-type]
    found = [each for fault in WRITES for each in fault.explanations(facts)]
    return sorted(found, key=lambda each: (-(explained(each) // 16), each.tensor))


def explained(found: Explanation) -> int:
    """Codes, scales and other bytes together."""
    masks = [mask for mask in (found.codes, found.scales) if mask is not None]
    return sum(int(mask.sum()) for mask in masks) + found.others


def seen(emission: Emission) -> set[str]:
    """The faults of writes that are observable in a case."""
    facts = Facts(emission, emission.contract, judge(emission))  # type: ignore[arg-type]
    found = {fault.slug: fault.shown(facts.standing()) for fault in by_name(WRITES)}
    return {slug for slug, forms in found.items() if forms and all(forms.values())}
