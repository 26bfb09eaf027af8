"""Source buffers: the parents of K and V, with the views in them."""

from __future__ import annotations

import msgspec
import numpy as np

from kvcheck.contract import Accepts
from kvcheck.memory.forms import Unplaceable
from kvcheck.schema import Case, Tensor
from kvcheck.views import Shape, View, view

#: Views that make K and V slices of one tensor, for targets that take K and V fused.
FUSED = {"dense": "kv", "kv": "kv", "qkv": "qkv"}


class Source(msgspec.Struct, frozen=True):
    """One parent tensor of `elements`, and the views of K, V or both that lie in it."""

    owner: str
    """`k`, `v`, or `kv` for a parent of both."""
    elements: int
    views: tuple[tuple[Tensor, View], ...]


def sources(case: Case, accepts: Accepts) -> tuple[Source, ...]:
    """The parents of K and V, in the order the case asks for. Raises Unplaceable."""
    names = {"k": case.k_view, "v": case.v_view}
    if accepts.source == "fused_kv":
        if names["k"] != names["v"] or names["k"] not in FUSED or case.head_dim != case.dim_v:
            raise Unplaceable(
                f"takes one fused tensor of K heads, then V heads; the case has k_view {names['k']}, "
                f"v_view {names['v']}, head_dims {case.head_dim} and {case.dim_v}"
            )
        names = dict.fromkeys(names, FUSED[names["k"]])
    k = view(names["k"], _shape(case, "k"))
    v = view(names["v"], _shape(case, "v"))
    for name, found, dim in (("k", k, case.head_dim), ("v", v, case.dim_v)):
        if overlaps((case.rows, case.heads, dim), found.strides):
            raise Unplaceable(f"{name}_view {names[name]} puts elements of {name.upper()} on each other")
    if k.parent is not None and k.parent == v.parent:
        return (Source("kv", max(k.elements, v.elements), (("k", k), ("v", v))),)
    made = {"k": Source("k", k.elements, (("k", k),)), "v": Source("v", v.elements, (("v", v),))}
    return tuple(made[side] for side in case.order)


def _shape(case: Case, tensor: Tensor) -> Shape:
    dim = case.head_dim if tensor == "k" else case.dim_v
    return Shape(tensor, case.rows, case.heads, dim, case.head_dim, case.dim_v)


def overlaps(dims: tuple[int, int, int], strides: tuple[int, int, int]) -> bool:
    """Whether elements of unlike index share memory. A token stride of 0 is none: there every token is one row."""
    axes = zip(dims, strides, strict=True)
    sized = [(stride, size) for axis, (size, stride) in enumerate(axes) if size > 1 and (axis or stride)]
    if 0 in dims:
        return False
    reach = 0
    for stride, size in sorted(sized):
        if stride <= reach:
            return _repeat(sized)
        reach += stride * (size - 1)
    return False


def _repeat(sized: list[tuple[int, int]]) -> bool:
    """Whether any two index tuples have one offset, by looking at all of them."""
    offsets = np.zeros(1, np.int64)
    for stride, size in sized:
        offsets = (offsets[:, None] + stride * np.arange(size, dtype=np.int64)).reshape(-1)
    return len(np.unique(offsets)) < len(offsets)
