"""Where every byte of a case lies and whose it is. `memory/` makes a placement; it travels in the emission."""

from __future__ import annotations

from typing import Literal

import msgspec

from kvcheck.schema.names import Dtype


class Placed(msgspec.Struct, frozen=True):
    """One tensor in memory: `dims` elements of `dtype`, `strides` apart, from byte `offset` of its allocation.

    `name` is `k`, `v`, `slots`, `k_codes`, `v_codes`, `k_scales`, `v_scales`, `k_scale`, `v_scale`, `out_k`, `out_v`
    or the name of a table. Codes and scales are always in cache coordinates, whatever the form: codes
    `[pages, page, heads, dim]`, scales `[pages, page, heads]`, `[pages, page, 1]` for one a token, or
    `[pages, page, heads, blocks]`. A form that is not paged has one row a page.
    """

    name: str
    allocation: int
    offset: int
    dtype: Dtype
    dims: tuple[int, ...]
    strides: tuple[int, ...]


class Region(msgspec.Struct, frozen=True):
    """A run of bytes of an allocation and what it holds before a launch, under the tensors that lie in it.

    `prefill`: random bytes that differ between launches. `poison`: values of the owner's dtype, larger than any of
    the owner's own. `ordinary`: values of the owner's dtype and size, the same in every launch. `slot_ids`: valid
    slots that the case does not address. `zeros`: zeros.
    """

    allocation: int
    start: int
    stop: int
    fill: Literal["prefill", "poison", "ordinary", "slot_ids", "zeros"]
    owner: str
    dtype: Dtype


class Placement(msgspec.Struct, frozen=True):
    """Every allocation of a case, every tensor and every other byte in it."""

    layout: str
    allocations: tuple[int, ...]
    """Bytes of each allocation."""
    tensors: tuple[Placed, ...]
    regions: tuple[Region, ...]
    slots: int
    """Rows of the cache, over all pages."""
    independence: bool
    """Whether poison lies where the kernel must not read. Without it independence is not judged."""
    reason: str = ""
    """Why independence is not judged, where it is not."""

    def find(self, name: str) -> Placed | None:
        """The tensor of that name, or None."""
        return next((tensor for tensor in self.tensors if tensor.name == name), None)

    def get(self, name: str) -> Placed:
        """The tensor of that name. Raises KeyError where the case has none."""
        tensor = self.find(name)
        if tensor is None:
            raise KeyError(name)
        return tensor
