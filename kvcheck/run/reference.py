"""The host reference store: kvcheck's own check that its placement, prefill and judge agree before a target runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from kvcheck.contract import Computed, Contract
from kvcheck.draw import dtypes
from kvcheck.draw.inputs import Floats, Inputs, Slots, addressed
from kvcheck.formats.arithmetic import element_scales, right_codes_exact, right_scales
from kvcheck.memory.arena import Memory
from kvcheck.schema import Case, Placement


def reference_store(memory: Memory, placement: Placement, case: Case, contract: Contract, inputs: Inputs) -> None:
    """Store what the contract asks for, with torch's indexing and the exact oracle.

    Values are read through the placed views, so that a wrong placement shows; codes are made by the oracle that the
    judge does not use, so that a wrong oracle shows.
    """
    kept = _last_of_slot(inputs.slots)
    where = torch.from_numpy(inputs.slots[kept]).to(memory.device)
    for side in ("k", "v"):
        source = memory.tensor(placement.get(side)).cpu().contiguous()
        bits = source.view(torch.int32 if case.dtype == "fp32" else torch.int16).numpy()
        unsigned = bits.view(np.uint32 if case.dtype == "fp32" else np.uint16)
        values = dtypes.to_float32(unsigned, case.dtype)[: case.tokens]
        given = inputs.k_scale if side == "k" else inputs.v_scale
        scales = right_scales(contract.scale, values) if isinstance(contract.scale, Computed) else given
        elements = None if scales is None else element_scales(contract, scales, values.shape)
        codes = right_codes_exact(contract, values, elements)
        _put(memory, placement, f"{side}_codes", where, codes[kept])
        if isinstance(contract.scale, Computed) and placement.find(f"{side}_scales") is not None:
            assert scales is not None
            _put(memory, placement, f"{side}_scales", where, _as_stored(contract.scale, scales)[kept])


def _last_of_slot(ids: Slots) -> npt.NDArray[np.bool_]:
    """Which tokens are stored: the last that names a slot, so that codes and scale come from one token."""
    _, behind = np.unique(ids[::-1], return_index=True)
    last = np.zeros(ids.shape, np.bool_)
    last[len(ids) - 1 - behind] = True
    return addressed(ids) & last


def _as_stored(rule: Computed, scales: Floats) -> npt.NDArray[np.generic]:
    """Scales as their tensor holds them: E8M0 as its exponent's byte (OCP MX), the rest as numbers."""
    if rule.dtype != "ue8m0":
        return scales
    return np.asarray(scales.view(np.uint32) >> np.uint32(23), np.uint8)  # a NaN's is 255, and 2^-127's is 0


def _put(memory: Memory, placement: Placement, name: str, slots: torch.Tensor, rows: npt.NDArray[np.generic]) -> None:
    """Write rows at slots through the cache-coordinate view."""
    placed = placement.get(name)
    page = placed.dims[1]
    view = memory.tensor(placed)
    data = torch.from_numpy(np.ascontiguousarray(rows)).to(memory.device)
    if data.dtype != view.dtype and data.dtype.itemsize == view.dtype.itemsize:
        data = data.view(view.dtype)
    view[slots // page, slots % page] = data.reshape(len(slots), *placed.dims[2:]).to(view.dtype)
