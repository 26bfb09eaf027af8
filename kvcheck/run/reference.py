"""The host reference store: kvcheck's own check that its placement, prefill and judge agree before a target runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from kvcheck.contract import Computed, Contract
from kvcheck.draw import dtypes
from kvcheck.draw.inputs import Inputs, addressed
from kvcheck.formats.arithmetic import element_scales, right_codes_exact, right_scales
from kvcheck.memory.arena import Memory
from kvcheck.schema import Case, Placement


def reference_store(memory: Memory, placement: Placement, case: Case, contract: Contract, inputs: Inputs) -> None:
    """Store what the contract asks for, with torch's indexing and the exact oracle.

    Values are read through the placed views, so that a wrong placement shows; codes are made by the oracle that the
    judge does not use, so that a wrong oracle shows.
    """
    kept = addressed(inputs.slots)
    where = torch.from_numpy(inputs.slots[kept]).to(memory.device)
    for side in ("k", "v"):
        source = memory.tensor(placement.get(side)).cpu().contiguous()
        bits = source.view(torch.int32 if case.dtype == "fp32" else torch.int16).numpy()
        unsigned = bits.view(np.uint32 if case.dtype == "fp32" else np.uint16)
        values = dtypes.to_float32(unsigned, case.dtype)
        given = inputs.k_scale if side == "k" else inputs.v_scale
        computed = isinstance(contract.scale, Computed)
        scales = right_scales(contract.scale, values) if isinstance(contract.scale, Computed) else given
        elements = None if scales is None else element_scales(contract, scales, values.shape)
        codes = right_codes_exact(contract, values, elements)
        _put(memory, placement, f"{side}_codes", where, codes[kept])
        if computed and placement.find(f"{side}_scales") is not None:
            assert scales is not None
            _put(memory, placement, f"{side}_scales", where, scales[kept])


def _put(memory: Memory, placement: Placement, name: str, slots: torch.Tensor, rows: npt.NDArray[np.generic]) -> None:
    """Write rows at slots through the cache-coordinate view."""
    placed = placement.get(name)
    page = placed.dims[1]
    view = memory.tensor(placed)
    data = torch.from_numpy(np.ascontiguousarray(rows)).to(memory.device)
    if data.dtype != view.dtype and data.dtype.itemsize == view.dtype.itemsize:
        data = data.view(view.dtype)
    view[slots // page, slots % page] = data.reshape(len(slots), *placed.dims[2:]).to(view.dtype)
