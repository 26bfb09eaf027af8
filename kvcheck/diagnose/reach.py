"""Where a kernel may not go: a layout with fences maps nothing beyond them, and an access there ends the case."""

from __future__ import annotations

import numpy as np

from kvcheck.addresses import Offsets, element_offsets
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.image import MASKED
from kvcheck.schema import ITEMSIZE, Placed


def stopped(facts: Facts, places: Offsets, item: int) -> bool:
    """Whether a fence stops a kernel that reads elements of `item` bytes at byte addresses `places`, in any shape.

    What is `MASKED` is not read. False where the layout has no fences: what lies beyond its memory is not known.
    """
    mapped = facts.emission.mapped
    if not mapped:
        return False
    inside = places == MASKED
    for begin, end in mapped:
        inside |= (places >= begin) & (places <= end - item)
    return not inside.all()


#: All heads of a tensor.
EVERY = slice(None)


def stopped_in(facts: Facts, tensor: Placed, heads: slice = EVERY) -> bool:
    """Whether a fence stops a kernel that takes `tensor`, wherever it is taken to lie, for K or V, or reads `heads`."""
    offsets = element_offsets(tensor)[facts.stored_tokens, heads]
    places = offsets + np.int64(facts.emission.addresses[tensor.allocation])
    return stopped(facts, places, ITEMSIZE[tensor.dtype])
