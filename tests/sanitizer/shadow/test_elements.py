"""Which element an address would be: at a tensor's own strides, at its sibling's, or as if rows were dense."""

from __future__ import annotations

import numpy as np

from kvcheck.contract import Accepts, Form
from kvcheck.kernels.store import CONTRACT
from kvcheck.memory.place import place
from kvcheck.sanitizer.shadow.elements import Reading, reading
from kvcheck.schema import Case, Placement

#: The case that kvcheck grew from: K a slice of qkv, pitch 1152; V dense, pitch 384.
SEED = Case(tokens=8, heads=3, head_dim=128, k_view="qkv", v_view="dense")


def laid(case: Case) -> Placement:
    """The case, placed for a store into slots."""
    return place(case, CONTRACT, Form("slots"), Accepts(), cuda=False)


def read(placement: Placement, name: str, elements: list[int]) -> Reading | None:
    """Elements counted from a tensor's first one."""
    tensor = placement.get(name)
    item = 2 if name in ("k", "v") else 1
    return reading(placement, tensor, 1 << 20, (1 << 20) + tensor.offset + np.array(elements) * item)


def test_own_pitch() -> None:
    """Elements of the tensor are read at its own pitch."""
    assert read(laid(SEED), "v", [384 * 2 + 128, 384 * 3 + 129]) == Reading((2, 3), (1,), 384, "")


def test_siblings_pitch() -> None:
    """Past V's end, token 6 at K's pitch: 13 824 bytes from V's begin, which is 7 680 past its end."""
    placement = laid(SEED)
    assert read(placement, "v", [6 * 1152 + dim for dim in range(384)]) == Reading((6,), (0, 1, 2), 1152, "k")
    tensor = placement.get("v")
    assert 6 * 1152 * 2 - 8 * 384 * 2 == 7680
    assert tensor.strides == (384, 128, 1)


def test_dense_pitch() -> None:
    """A gap of a tensor whose sibling lies alike: the rows would be dense."""
    case = Case(tokens=4, heads=2, head_dim=64, k_view="every_second", v_view="every_second")
    assert read(laid(case), "k", [128, 191]) == Reading((1,), (0,), 128, "dense")


def test_slots_of_pages() -> None:
    """Rows of a cache are slots: page times its size, plus the row in it."""
    placement = place(Case(tokens=20, heads=1, head_dim=8), CONTRACT, Form("pages", page=16), Accepts(), cuda=False)
    assert read(placement, "k_codes", [17 * 8, 17 * 8 + 7]) == Reading((17,), (0,), 8, "")


def test_no_element() -> None:
    """Bytes between two elements, addresses before the tensor, and rows beyond all pitches are none."""
    placement = laid(SEED)
    tensor = placement.get("v")
    assert reading(placement, tensor, 0, np.array([tensor.offset + 1])) is None
    assert read(placement, "v", [-1]) is None
    assert read(placement, "v", [8 * 1152]) is None
