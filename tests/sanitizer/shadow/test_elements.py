"""Which element an address would be: at a tensor's own strides, at its sibling's, or as if rows were dense."""

from __future__ import annotations

import numpy as np

from kvcheck.contract import Accepts, Form
from kvcheck.kernels.store import CONTRACT
from kvcheck.memory.place import place
from kvcheck.sanitizer.shadow.elements import Reading, guess, reading
from kvcheck.schema import ITEMSIZE, Case, Placed, Placement

#: The case that kvcheck grew from: K a slice of qkv, pitch 1152; V dense, pitch 384.
SEED = Case(tokens=8, heads=3, head_dim=128, k_view="qkv", v_view="dense")


def laid(case: Case) -> Placement:
    """The case, placed for a store into slots."""
    return place(case, CONTRACT, Form("slots"), Accepts(), cuda=False)


def near(
    placement: Placement, name: str, elements: list[int]
) -> tuple[Placed, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """A tensor, and addresses counted in elements from its first one, in an allocation at 2^20."""
    tensor = placement.get(name)
    return tensor, (1 << 20) + tensor.offset + np.array(elements) * ITEMSIZE[tensor.dtype]


def read(placement: Placement, name: str, elements: list[int]) -> Reading | None:
    """Elements at the tensor's own strides."""
    tensor, addresses = near(placement, name, elements)
    return reading(tensor, 1 << 20, addresses)


def guessed(
    placement: Placement, name: str, lanes: dict[int, list[int]], due: list[int] | None = None
) -> Reading | None:
    """Elements at other strides; `lanes` are theirs by program."""
    tensor = placement.get(name)
    every = [((program, 0, 0), near(placement, name, elements)[1]) for program, elements in lanes.items()]
    return guess(placement, tensor, 1 << 20, every, None if due is None else np.array(due))


def test_own_pitch() -> None:
    """Elements of the tensor are read at its own pitch."""
    assert read(laid(SEED), "v", [384 * 2 + 128, 384 * 3 + 129]) == Reading((2, 3), (1,), 384, "")


def test_siblings_pitch() -> None:
    """Past V's end, token 6 at K's pitch: 13 824 bytes from V's begin, which is 7 680 past its end."""
    placement = laid(SEED)
    row = [6 * 1152 + dim for dim in range(384)]
    assert read(placement, "v", row) is None
    assert guessed(placement, "v", {6: row}) == Reading((6,), (0, 1, 2), 1152, "k")
    assert 6 * 1152 * 2 - 8 * 384 * 2 == 7680


def test_programs_must_agree() -> None:
    """The same addresses by another program are token 6 by chance, if at all."""
    row = [6 * 1152 + dim for dim in range(384)]
    assert guessed(laid(SEED), "v", {5: row}) is None
    assert guessed(laid(SEED), "v", {6: row, 7: row}) is None


def test_dense_pitch() -> None:
    """A gap of a tensor whose sibling lies alike: the rows would be dense."""
    case = Case(tokens=4, heads=2, head_dim=64, k_view="every_second", v_view="every_second")
    assert guessed(laid(case), "k", {1: [128, 191]}) == Reading((1,), (0,), 128, "dense")


def test_cache_rows_must_be_due() -> None:
    """Of a cache a pitch is believed that makes slots of the addresses that tokens name."""
    placement = laid(Case(tokens=4, heads=2, head_dim=8, v_cache="padded"))
    assert placement.get("v_codes").strides[0] == 80
    lanes = {0: [3 * 16], 1: [4 * 16 + 1]}
    assert guessed(placement, "v_codes", lanes, [3, 4, 9]) == Reading((3, 4), (0,), 16, "k_codes")
    assert guessed(placement, "v_codes", lanes, [3, 9]) is None


def test_slots_of_pages() -> None:
    """Rows of a cache are slots: page times its size, plus the row in it."""
    placement = place(Case(tokens=20, heads=1, head_dim=8), CONTRACT, Form("pages", page=16), Accepts(), cuda=False)
    assert read(placement, "k_codes", [17 * 8, 17 * 8 + 7]) == Reading((17,), (0,), 8, "")


def test_no_element() -> None:
    """Bytes between two elements, addresses before the tensor, and rows beyond all pitches are none."""
    placement = laid(SEED)
    tensor = placement.get("v")
    assert reading(tensor, 0, np.array([tensor.offset + 1])) is None
    assert read(placement, "v", [-1]) is None
    assert guessed(placement, "v", {0: [-1]}) is None
    assert guessed(placement, "v", {8: [8 * 1152]}) is None
