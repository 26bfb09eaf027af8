"""The K and V that the launch received: a fault reads with the strides that reached the kernel, not the case's."""

from __future__ import annotations

from kvcheck.schema import Emission, Placed, Tensor


def source(emission: Emission, tensor: Tensor) -> Placed | None:
    """K or V where the kernel was handed the placed tensor; None where it was handed a copy.

    A copy alone proves nothing, since some targets copy and then read the original: the launch must also have
    received no tensor that begins at the original. Launches that nobody could watch count as having received it.
    """
    return None if is_copied(emission, tensor) else emission.placement.get(tensor)


def strides(emission: Emission, tensor: Tensor) -> tuple[int, ...]:
    """The strides of K or V that reached the kernel: the placed tensor's, or those of a dense copy."""
    placed = emission.placement.get(tensor)
    if not is_copied(emission, tensor):
        return placed.strides
    _, heads, dim = placed.dims
    return (heads * dim, dim, 1)


def is_copied(emission: Emission, tensor: Tensor) -> bool:
    """Whether the kernel worked on a copy of K or V."""
    copied = any(copy.tensor == tensor for copy in emission.copies)
    return copied and bool(emission.received) and all(found.tensor != tensor for found in emission.received)
