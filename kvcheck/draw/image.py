"""The bytes of every allocation before a launch: regions first, tensors on top."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from kvcheck.addresses import byte_offsets, element_offsets, row_offsets
from kvcheck.contract import Contract, LoadContract
from kvcheck.draw import dtypes
from kvcheck.draw.counter import words
from kvcheck.draw.decoy import decoy
from kvcheck.draw.inputs import Inputs, Slots, addressed, logical
from kvcheck.draw.load import row_codes, row_scales
from kvcheck.draw.poison import SourceDtype, ordinary, poison, with_nan
from kvcheck.draw.prefill import Bytes, prefill, prefill_at
from kvcheck.draw.slots import unaddressed
from kvcheck.draw.tables import NAMES, spare_pages, tables
from kvcheck.draw.visibility import ordinary_top, poison_level
from kvcheck.schema import ITEMSIZE, Case, Dtype, Placed, Placement, Poison, Prefill, Region, Tensor


@dataclass(frozen=True)
class _Scene:
    """What the bytes before one launch depend on."""

    placement: Placement
    case: Case
    contract: Contract | LoadContract
    inputs: Inputs
    prefill: Prefill
    poison: Poison
    redrawn: Tensor | Literal["all"] | None


def case_inputs(
    placement: Placement, case: Case, contract: Contract | LoadContract, redrawn: Tensor | None = None
) -> Inputs:
    """The logical inputs of a case whose cache is placed (see `inputs.logical`)."""
    page = placement.get("k_codes").dims[1]
    return logical(case, contract, placement.slots, page, redrawn)


def decoy_inputs(placement: Placement, case: Case, contract: Contract | LoadContract) -> Inputs:
    """What stands there instead while the case's launch is captured (see `decoy.decoy`)."""
    return decoy(case, contract, placement.slots, placement.get("k_codes").dims[1])


class Images:
    """Every allocation's bytes before each launch of a case. What its launches have in common is drawn once."""

    def __init__(self, placement: Placement, case: Case, contract: Contract | LoadContract) -> None:
        """Draw nothing yet."""
        self._placement = placement
        self._case = case
        self._contract = contract
        self._drawn: dict[tuple[object, ...], Bytes] = {}

    def before(self, letter: Prefill, poisoned: Poison, redrawn: Tensor | None = None) -> tuple[Bytes, ...]:
        """The bytes before a launch with that prefill and poison: one uint8 array an allocation, the caller's own.

        `redrawn` K or V holds other values (see `inputs.logical`).
        """
        inputs = case_inputs(self._placement, self._case, self._contract, redrawn)
        return self._of(_Scene(self._placement, self._case, self._contract, inputs, letter, poisoned, redrawn))

    def decoy(self) -> tuple[Bytes, ...]:
        """The bytes before the launch is captured: the decoy's inputs, in the prefill and poison of no first launch."""
        inputs = decoy_inputs(self._placement, self._case, self._contract)
        return self._of(_Scene(self._placement, self._case, self._contract, inputs, "B", "B", "all"))

    def _of(self, scene: _Scene) -> tuple[Bytes, ...]:
        placement, case, contract, inputs = scene.placement, scene.case, scene.contract, scene.inputs
        arrays = tuple(np.zeros(size, np.uint8) for size in placement.allocations)
        for index, region in enumerate(placement.regions):
            if region.fill != "zeros":
                arrays[region.allocation][region.start : region.stop] = self._filled(scene, index, region)
        for tensor in placement.tensors:
            data = _content(tensor, placement, inputs)
            if data is not None:
                scatter(arrays[tensor.allocation], tensor, data)
        if isinstance(contract, LoadContract):
            for name, rows in loaded_rows(placement, case, contract, inputs).items():
                _scatter_rows(arrays, placement.get(name), inputs.slots, rows)
        return arrays

    def _filled(self, scene: _Scene, index: int, region: Region) -> Bytes:
        """The bytes of one region, kept for the launches in which they are the same."""
        if region.fill == "prefill":
            return _fill(scene, index, region)  # no launch has another one's
        key = (index, scene.redrawn, scene.poison if region.fill == "poison" else None)
        if key not in self._drawn:
            self._drawn[key] = _fill(scene, index, region)
        return self._drawn[key]


def images(
    placement: Placement,
    case: Case,
    contract: Contract | LoadContract,
    letter: Prefill,
    poisoned: Poison,
    redrawn: Tensor | None = None,
) -> tuple[Bytes, ...]:
    """Every allocation's bytes before one launch (see `Images.before`)."""
    return Images(placement, case, contract).before(letter, poisoned, redrawn)


def loaded_rows(
    placement: Placement, case: Case, contract: LoadContract, inputs: Inputs
) -> dict[str, npt.NDArray[np.generic]]:
    """What a load target finds in each cache tensor's rows, one a token: `[tokens, heads(, dim)]`."""
    sides: tuple[tuple[Tensor, int], ...] = (("k", case.head_dim), ("v", case.dim_v))
    found: dict[str, npt.NDArray[np.generic]] = {}
    for side, dim in sides:
        found[f"{side}_codes"] = row_codes(side, inputs.slots, case.heads, dim, case.seed)
        if contract.scale == "token_head" and placement.find(f"{side}_scales") is not None:
            found[f"{side}_scales"] = row_scales(side, inputs.slots, case.heads, case.seed)
    return found


def prefill_rows(placement: Placement, case: Case, name: str, offsets: npt.NDArray[np.int64], letter: Prefill) -> Bytes:
    """The prefill's bytes at byte `offsets` of a tensor's allocation: uint8, shaped like `offsets`."""
    return prefill_at(placement.get(name).allocation, case.seed, letter, offsets)


def scatter(array: Bytes, tensor: Placed, data: npt.NDArray[np.generic]) -> None:
    """Write a tensor's elements, `data` shaped like it, into its allocation."""
    item = ITEMSIZE[tensor.dtype]
    if data.size == 0:
        return
    raw = np.ascontiguousarray(data).view(np.uint8).reshape(*data.shape, item)
    array[byte_offsets(element_offsets(tensor), item)] = raw


def _scatter_rows(arrays: tuple[Bytes, ...], tensor: Placed, ids: Slots, rows: npt.NDArray[np.generic]) -> None:
    """Write the rows of tokens whose slot is not negative."""
    kept = addressed(ids)
    item = ITEMSIZE[tensor.dtype]
    raw = np.ascontiguousarray(rows[kept]).view(np.uint8).reshape(*rows[kept].shape, item)
    arrays[tensor.allocation][byte_offsets(row_offsets(tensor, ids[kept]), item)] = raw


def _fill(scene: _Scene, index: int, region: Region) -> Bytes:
    """The bytes of one region, the `index`-th of its placement."""
    size, seed = region.stop - region.start, scene.case.seed
    if region.fill == "prefill":
        return prefill(region.allocation, seed, scene.prefill, region.start, region.stop)
    count = size // ITEMSIZE[region.dtype] + 1
    if region.fill == "slot_ids":
        return _bytes_of(_slot_ids(scene, index, count, region), size)
    dtype = cast("SourceDtype", region.dtype)
    if region.fill == "poison":
        top = poison_level(scene.case, scene.contract, scene.inputs, region.owner, scene.poison)
        values = poison((scene.poison, index, seed), count, top, dtype)
        if scene.case.poison == "nan":
            values = with_nan((scene.poison, index, seed), values, dtype)
        return _bytes_of(values, size)
    top = ordinary_top(scene.inputs, region.owner)
    return _bytes_of(ordinary((index, seed), count, top, dtype), size)


def _slot_ids(scene: _Scene, index: int, count: int, region: Region) -> npt.NDArray[np.signedinteger]:
    """Ids that the case does not address: of slots, or of pages around a table, whose entries name pages."""
    dtype: Dtype = region.dtype
    if region.owner in NAMES:
        pages, page = scene.placement.get("k_codes").dims[:2]
        free = spare_pages(scene.inputs.slots, pages, page)
    else:
        free = unaddressed(scene.inputs.slots, scene.placement.slots)
    picks = words(("slot-guard", index, scene.case.seed), 0, count) % np.uint64(len(free))
    chosen: Slots = free[picks.astype(np.int64)]
    return chosen.astype(np.int32) if dtype == "int32" else chosen


def _bytes_of(values: npt.NDArray[np.generic], size: int) -> Bytes:
    return np.ascontiguousarray(values).view(np.uint8)[:size]


def _content(tensor: Placed, placement: Placement, inputs: Inputs) -> npt.NDArray[np.generic] | None:
    """What an input tensor holds, shaped like it; None for tensors that hold their region's bytes."""
    if tensor.name == "k":
        return inputs.k
    if tensor.name == "v":
        return inputs.v
    if tensor.name == "slots":
        return inputs.slots.astype(np.int32 if tensor.dtype == "int32" else np.int64)
    if tensor.name in ("k_scale", "v_scale"):
        scale = inputs.k_scale if tensor.name == "k_scale" else inputs.v_scale
        assert scale is not None
        return scale if tensor.dtype == "fp32" else dtypes.from_float32(scale, cast("SourceDtype", tensor.dtype))
    if tensor.name not in NAMES:
        return None
    return tables(inputs.slots, placement.get("k_codes").dims[1])[tensor.name]
