"""Memory as the kernel saw it before a launch: elements at any address, placed or not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvcheck.addresses import Offsets, byte_offsets, element_offsets
from kvcheck.draw import dtypes
from kvcheck.draw.image import images
from kvcheck.schema import ITEMSIZE, Dtype, Emission, Placed, Poison, Prefill, Tensor

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

#: The address of an element that a kernel masks away: nothing lies there, so that it is known to be zero.
MASKED = -(1 << 60)


class SourceMemory:
    """Every allocation's bytes at the address it lay at, relative to the lowest.

    Bytes outside all allocations read as zero, as fresh memory often does: what really lay there is not known, which
    `known_at` says. Addresses may be negative.
    """

    def __init__(self, allocations: Sequence[Bytes], addresses: Sequence[int]) -> None:
        """`allocations` uint8 arrays, which do not overlap, `addresses` where each begins. Raises ValueError."""
        if len(allocations) != len(addresses):
            raise ValueError(f"{len(allocations)} allocations have {len(addresses)} addresses")
        held = sorted((base, index) for index, base in enumerate(addresses) if len(allocations[index]))
        self._addresses = tuple(addresses)
        self._starts = np.array([base for base, _ in held], np.int64)
        parts = [allocations[index] for _, index in held]
        sizes = np.array([len(part) for part in parts], np.int64)
        self._stops = self._starts + sizes
        if (self._stops[:-1] > self._starts[1:]).any():
            raise ValueError(f"allocations at {list(addresses)} overlap")
        # Behind all bytes stands the zero that is read outside.
        self._bytes = np.concatenate([*parts, np.zeros(1, np.uint8)])
        self._shift = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])[:-1] - self._starts

    @classmethod
    def of(
        cls, emission: Emission, prefill: Prefill = "A", poison: Poison = "A", redrawn: Tensor | None = None
    ) -> SourceMemory:
        """The memory of an emission before a launch with that prefill and poison, and other values in `redrawn`."""
        made = images(emission.placement, emission.case, emission.contract, prefill, poison, redrawn)
        return cls(made, emission.addresses)

    def pieces(self) -> list[tuple[int, Bytes]]:
        """Every allocation that holds a byte: where it begins, and its bytes."""
        sizes = (self._stops - self._starts).tolist()
        firsts = (self._starts + self._shift).tolist()
        return [
            (start, self._bytes[first : first + size])
            for start, first, size in zip(self._starts.tolist(), firsts, sizes, strict=True)
        ]

    def bytes_at(self, addresses: Offsets) -> Bytes:
        """The bytes at `addresses`, in their shape."""
        if not len(self._starts):
            return np.zeros(addresses.shape, np.uint8)
        index = np.maximum(np.searchsorted(self._starts, addresses, side="right") - 1, 0)
        inside = (addresses >= self._starts[index]) & (addresses < self._stops[index])
        return self._bytes[np.where(inside, addresses + self._shift[index], len(self._bytes) - 1)]

    def read(self, tensor: Placed) -> Floats:
        """The values of a tensor wherever it lies, inside its allocation or not: fp32, shaped like it."""
        return self.values_at(element_offsets(tensor) + np.int64(self._addresses[tensor.allocation]), tensor.dtype)

    def values_at(self, addresses: Offsets, dtype: Dtype) -> Floats:
        """The elements of `dtype`, a source's, that begin at byte `addresses`: fp32, in their shape."""
        assert dtype in ("bf16", "fp16", "fp32")
        item = ITEMSIZE[dtype]
        shift = self._shift_of(addresses, item)
        if shift is not None:
            # An element at every byte of memory: no copy, and one step for each address.
            kind = np.dtype("<u4" if item == 4 else "<u2")
            every = np.ndarray((len(self._bytes) - item + 1,), kind, self._bytes.data, strides=(1,))
            return dtypes.to_float32(every[addresses + shift], dtype)
        bits = self.bytes_at(byte_offsets(addresses, item)).view(np.uint32 if item == 4 else np.uint16)[..., 0]
        return dtypes.to_float32(bits, dtype)

    def known_at(self, addresses: Offsets, dtype: Dtype) -> Mask | None:
        """Which elements of `dtype` at byte `addresses` lie in allocations, or are `MASKED`, and so are known.

        In the shape of `addresses`; None where all of them are.
        """
        item = ITEMSIZE[dtype]
        if not addresses.size or self._shift_of(addresses, item) is not None:
            return None
        known: Mask = addresses == MASKED
        if len(self._starts):
            # Two allocations that touch may each hold a part of one element.
            places = byte_offsets(addresses, item)
            index = np.maximum(np.searchsorted(self._starts, places, side="right") - 1, 0)
            known |= ((places >= self._starts[index]) & (places < self._stops[index])).all(axis=-1)
        return None if known.all() else known

    def _shift_of(self, addresses: Offsets, item: int) -> np.int64 | None:
        """What leads from addresses to places in `_bytes`, where one allocation holds all `item` bytes of each."""
        if not addresses.size:
            return None
        low, high = addresses.min(), addresses.max() + item
        index = np.flatnonzero((self._starts <= low) & (high <= self._stops))
        return self._shift[index[0]] if len(index) else None
