"""Channel 6: K, V, slots, tables and given scales keep their bytes."""

from __future__ import annotations

import numpy as np

from kvcheck.addresses import byte_offsets, element_offsets
from kvcheck.judge.writes import position
from kvcheck.schema import ITEMSIZE, InputsVerdict, Placement

#: Tensors that a target writes to. Every other one is an input.
WRITTEN = ("k_codes", "v_codes", "k_scales", "v_scales", "out_k", "out_v")


def split(placement: Placement, changed: np.typing.NDArray[np.int64]) -> tuple[InputsVerdict, int]:
    """The inputs' verdict on `changed` positions, and how many are stray: in no input.

    An input owns its elements' bytes alone; what lies between the rows of a view is stray.
    """
    owned = np.zeros(changed.shape, np.bool_)
    names = []
    for tensor in placement.tensors:
        if tensor.name in WRITTEN or not len(changed):
            continue
        offsets = byte_offsets(element_offsets(tensor), ITEMSIZE[tensor.dtype])
        mine = np.isin(changed, position(tensor.allocation, offsets.ravel()))
        if mine.any():
            names.append(tensor.name)
        owned |= mine
    return InputsVerdict(changed=int(owned.sum()), tensors=tuple(names)), int((~owned).sum())
