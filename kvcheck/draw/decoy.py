"""What stands in memory while a launch is captured in a graph: other inputs than those of every replay.

A graph keeps addresses and what was computed on the host. Whatever of the inputs it kept by value is of the decoy, and
shows in a replay.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np

from kvcheck.contract import Contract, LoadContract
from kvcheck.draw.counter import words
from kvcheck.draw.inputs import Floats, Inputs, Slots, logical
from kvcheck.draw.slots import unaddressed
from kvcheck.schema import Case

#: What is added to the seed of a decoy's K and V: no matrix has such seeds.
_SEED = 1 << 65

#: What given scales of the decoy are multiplied by: a power of two, for contracts whose scales are such, and so large
#: that common scales become neither 1 nor each other.
_TIMES = np.float32(32)


@lru_cache(maxsize=2)
def decoy(case: Case, contract: Contract | LoadContract, slot_count: int, page: int) -> Inputs:
    """The decoy's inputs, shaped like the case's own (see `inputs.logical`).

    K and V are normal values of another seed, whatever the case holds; given scales are 32 times its own. A token
    that is stored goes to a slot that the case does not address, tokens that share one to the same; -1 stays -1. A
    scale that is handed over as a Python float is the case's own: a graph keeps it, and may.
    """
    plain = msgspec.structs.replace(case, k_values="normal", v_values="normal", seed=case.seed + _SEED)
    drawn = logical(plain, contract, slot_count, page)
    own = logical(case, contract, slot_count, page)
    ids = _moved(own.slots, slot_count, case.seed)
    k_scale, v_scale = _times(own.k_scale), _times(own.v_scale)
    for array in (ids, k_scale, v_scale):
        if array is not None:
            array.setflags(write=False)
    return Inputs(drawn.k, drawn.v, drawn.k_float, drawn.v_float, ids, k_scale, v_scale)


def _moved(ids: Slots, slot_count: int, seed: int) -> Slots:
    """Each addressed slot's tokens go to one that is not addressed, drawn; of those there are always more."""
    free, moved = unaddressed(ids, slot_count), np.array(ids, np.int64)
    drawn = words(("slots", "decoy", len(ids), slot_count, seed), 0, len(free))
    stored = ids >= 0
    _, which = np.unique(ids[stored], return_inverse=True)
    moved[stored] = free[np.argsort(drawn, kind="stable")][which]
    return moved


def _times(scale: Floats | None) -> Floats | None:
    return None if scale is None else np.asarray(scale * _TIMES, np.float32)
