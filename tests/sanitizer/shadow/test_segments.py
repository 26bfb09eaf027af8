"""The allocation map: every element has its owner, every other byte has none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from memory.scenes import Scene, scenes

from kvcheck.addresses import byte_offsets, element_offsets
from kvcheck.contract import LoadContract
from kvcheck.draw.image import case_inputs
from kvcheck.draw.inputs import addressed
from kvcheck.memory.forms import Unplaceable
from kvcheck.sanitizer.shadow.segments import NOBODY, runs, segments
from kvcheck.schema import ITEMSIZE, Placed, Placement

#: Allocations lie where they please: not in order, and with holes between them.
PLACES = (1 << 40, 1 << 20, 3 << 30, 5 << 30, 7 << 30, 9 << 30, 11 << 30, 13 << 30, 15 << 30, 17 << 30, 19 << 30)


def placed(scene: Scene) -> Placement | None:
    """The scene's placement, where it has one."""
    try:
        return scene.place()
    except (Unplaceable, ValueError):
        return None


@settings(deadline=None, max_examples=60)
@given(scenes())
def test_every_byte_has_its_owner(scene: Scene) -> None:
    """Against the offsets of all elements, byte by byte: owner, due and known."""
    placement = placed(scene)
    if placement is None or len(placement.allocations) > len(PLACES):
        return
    slots = case_inputs(placement, scene.case, scene.contract).slots
    load = isinstance(scene.contract, LoadContract)
    kept = addressed(slots)
    rows = dict.fromkeys(("k_codes", "v_codes", "k_scales", "v_scales"), slots[kept])
    rows |= dict.fromkeys(("out_k", "out_v"), np.flatnonzero(kept)) if load else {}
    bases = PLACES[: len(placement.allocations)]
    map_ = segments(placement, bases, rows)
    owners = [np.full(size, NOBODY) for size in placement.allocations]
    due = [np.zeros(size, np.bool_) for size in placement.allocations]
    known = [np.zeros(size, np.bool_) for size in placement.allocations]
    for index, tensor in enumerate(placement.tensors):
        if 0 in tensor.dims:
            continue
        every = byte_offsets(element_offsets(tensor), ITEMSIZE[tensor.dtype])
        owners[tensor.allocation][every] = index
        axes = 2 if tensor.name in ("k_codes", "v_codes", "k_scales", "v_scales") else 1
        some = every.reshape(int(np.prod(tensor.dims[:axes])), -1)[rows[tensor.name]] if tensor.name in rows else every
        if tensor.name in ("out_k", "out_v") or (tensor.name in rows and not load):
            due[tensor.allocation][some] = True
        else:
            known[tensor.allocation][some] = True
    for base, *wanted in zip(bases, owners, due, known, strict=True):
        addresses = np.arange(base, base + len(wanted[0]))
        found = map_.at(addresses)
        holds = map_.hold(found, addresses, 1)
        assert np.array_equal(np.where(holds, map_.owners[found], NOBODY), wanted[0])
        assert np.array_equal(holds & map_.due[found], wanted[1])
        assert np.array_equal(holds & map_.known[found], wanted[2])


def test_merged_runs() -> None:
    """A dense tensor is one run; with a gap behind each head, one a head; with rows kept apart, one a row."""
    dense = Placed("k", 0, 64, "bf16", (4, 3, 8), (24, 8, 1))
    starts, length = runs(dense, 0)
    assert (starts.tolist(), length) == ([[64]], 192)
    padded = Placed("k", 0, 0, "bf16", (2, 2, 8), (40, 20, 1))
    assert sorted(runs(padded, 0)[0].reshape(-1).tolist()) == [0, 40, 80, 120]
    rows = Placed("k_codes", 0, 0, "uint8", (3, 1, 2, 8), (16, 16, 8, 1))
    starts, length = runs(rows, 2)
    assert (starts.tolist(), length) == ([[0], [16], [32]], 16)


def test_repeated_rows_are_one() -> None:
    """A token stride of 0 has one row, whatever the tokens."""
    starts, length = runs(Placed("k", 0, 0, "fp32", (5, 2, 4), (0, 4, 1)), 0)
    assert (starts.tolist(), length) == ([[0]], 32)


def test_two_owners() -> None:
    """Tensors that share a byte have no map."""
    k, v = (Placed(name, 0, offset, "uint8", (1, 1, 8), (8, 8, 1)) for name, offset in (("k", 0), ("v", 7)))
    placement = Placement("arena", (32,), (k, v), (), 1, independence=False)
    with pytest.raises(ValueError, match="share a byte"):
        segments(placement, (0,), {})


def test_access_over_two_segments() -> None:
    """An access that begins in one row and ends in the next of its tensor is held; one that ends beyond it is not."""
    codes = Placed("k_codes", 0, 0, "uint8", (2, 1, 1, 8), (8, 8, 8, 1))
    other = Placed("v", 0, 16, "uint8", (1, 1, 8), (8, 8, 1))
    map_ = segments(
        Placement("arena", (32,), (codes, other), (), 2, independence=False), (1000,), {"k_codes": np.array([0])}
    )
    addresses = np.array([1000, 1004, 1006, 1012, 1014, 1020, 1022])
    assert map_.hold(map_.at(addresses), addresses, 4).tolist() == [True, True, True, True, False, True, False]
