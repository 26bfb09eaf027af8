"""Placement: no two tensors share a byte, all lie where they should, and guards are longer than any reach."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

from kvcheck.addresses import byte_offsets, element_offsets, extent, layer_pitch
from kvcheck.contract import Accepts, Computed, Contract, Form, Given, LoadContract
from kvcheck.draw.slots import slot_count
from kvcheck.draw.tables import NAMES
from kvcheck.matrix.axes import LAYOUTS
from kvcheck.memory.fences import FENCES
from kvcheck.memory.place import place
from kvcheck.schema import ITEMSIZE, Case, Placed, Placement, Region
from kvcheck.views import VIEWS, repeats

from .scenes import CONTRACTS, Scene, placed, scenes

#: What each tensor's own bytes hold before a launch, under its content.
FILLS = {"k": "poison", "v": "poison", "slots": "slot_ids"}

#: Layouts in which an address is a multiple of the case's alignment, and of nothing larger.
NO_FENCES = tuple(layout for layout in LAYOUTS if layout not in FENCES)


def bytes_of(tensor: Placed) -> npt.NDArray[np.int64]:
    """The offset of every byte of every element, flat."""
    return byte_offsets(element_offsets(tensor), ITEMSIZE[tensor.dtype]).reshape(-1)


def names(scene: Scene) -> set[str]:
    """The tensors that a scene must have."""
    contract, form = scene.contract, scene.form
    found = {"k_codes", "v_codes", "slots"} | (set(NAMES) if form.addressed_by == "block_table" else set())
    if isinstance(contract, LoadContract):
        found |= {"out_k", "out_v"}
        scaled, handed = contract.scale == "token_head", contract.scale in ("tensor", "head")
    else:
        found |= {"k", "v"}
        scaled = isinstance(contract.scale, Computed)
        handed = isinstance(contract.scale, Given) and not contract.scale.as_float
    found |= {"k_scales", "v_scales"} if scaled and form.scales != "none" else set()
    return found | ({"k_scale", "v_scale"} if handed else set())


@settings(max_examples=200, deadline=None)
@given(scenes())
def test_no_two_tensors_share_a_byte(scene: Scene) -> None:
    """Every element lies inside its allocation, aligned to its size, on memory that no other element has."""
    placement = placed(scene)
    if placement is None:
        return
    assert {tensor.name for tensor in placement.tensors} == names(scene)
    assert len(placement.tensors) == len(names(scene))
    owners = [np.zeros(size, np.int64) for size in placement.allocations]
    for tensor in placement.tensors:
        assert tensor.offset % ITEMSIZE[tensor.dtype] == 0
        taken = bytes_of(tensor)
        if repeats(scene.case.k_view if tensor.name == "k" else scene.case.v_view) and tensor.name in ("k", "v"):
            taken = np.unique(taken)
        if taken.size:
            assert taken.min() >= 0
            assert taken.max() < placement.allocations[tensor.allocation]
            start, stop = extent(tensor)
            assert (start, stop) == (taken.min(), taken.max() + 1)
        np.add.at(owners[tensor.allocation], taken, 1)
    assert all(owner.max(initial=0) <= 1 for owner in owners)


@settings(max_examples=100, deadline=None)
@given(scenes())
def test_cache_tensors_are_in_cache_coordinates(scene: Scene) -> None:
    """Pages times rows a page are the slots, and the dims are those of the case."""
    placement = placed(scene)
    if placement is None:
        return
    case, form = scene.case, scene.form
    page = 1 if form.kind in ("slots", "fused") else case.page or form.page
    for side, dim in (("k", case.head_dim), ("v", case.dim_v)):
        codes = placement.get(f"{side}_codes")
        assert codes.dims == (placement.slots // page, page, case.heads, dim)
        assert codes.dtype == form.codes
        scales = placement.find(f"{side}_scales")
        if scales is not None:
            assert scales.dims[:2] == codes.dims[:2]
    assert placement.slots == slot_count(case.tokens, 16 if form.kind in ("slots", "fused") else page)


@settings(max_examples=100, deadline=None)
@given(scenes())
def test_every_tensor_lies_in_a_region_of_its_own_fill(scene: Scene) -> None:
    """Regions never overlap; an arena's follow each other from its first byte to its last."""
    placement = placed(scene)
    if placement is None:
        return
    for allocation, size in enumerate(placement.allocations):
        regions = [region for region in placement.regions if region.allocation == allocation]
        assert all(region.start < region.stop for region in regions)
        ends = [0, *(region.stop for region in regions)]
        starts = [*(region.start for region in regions), size]
        gaps = [start - end for end, start in zip(ends, starts, strict=True)]
        assert min(gaps) >= 0
        if placement.layout == "arena":
            assert max(gaps) == 0
    for tensor in placement.tensors:
        start, stop = extent(tensor)
        if start < stop:
            fill = FILLS.get(tensor.name, "slot_ids" if tensor.name in NAMES else "prefill")
            if fill == "poison" and placement.layout != "arena":
                fill = "ordinary"
            assert [fill] == [each.fill for each in _around(placement, tensor.allocation, start, stop)]


def _around(placement: Placement, allocation: int, start: int, stop: int) -> list[Region]:
    return [
        region
        for region in placement.regions
        if region.allocation == allocation and region.start <= start and stop <= region.stop
    ]


@settings(max_examples=100, deadline=None)
@given(scenes(("arena",)))
def test_guards_are_longer_than_any_reach(scene: Scene) -> None:
    """From block to block, and at both ends: more than the rows of any tensor at the strides of any."""
    placement = placed(scene)
    if placement is not None and scene.case.tokens:
        check_guards(placement)


@pytest.mark.parametrize(
    ("k_view", "v_view"), [("transposed", "dense"), ("dense", "head_interleaved"), ("40000,128,1", "kv")]
)
def test_guards_are_longer_than_any_reach_in_large_cases(k_view: str, v_view: str) -> None:
    """Where the sizes of elements and the strides of views are what decides."""
    case = Case(k_view=k_view, v_view=v_view, dtype="fp32", tokens=32, heads=1)
    check_guards(place(case, Contract(scale=Given("tensor")), Form(), Accepts(), cuda=False))


def check_guards(placement: Placement) -> None:
    """Hold every distance between blocks against the furthest reach."""
    bodies = [placement.regions[index : index + 3] for index in range(0, len(placement.regions), 3)]
    kinds: dict[tuple[int, str], list[Placed]] = {}
    for tensor in placement.tensors:
        kinds.setdefault((len(tensor.dims), tensor.dtype), []).append(tensor)
    reach = 0
    for alike in kinds.values():
        most = [max(sizes) for sizes in zip(*(tensor.dims for tensor in alike), strict=True)]
        for tensor in alike:
            elements = sum(size * stride for size, stride in zip(most, tensor.strides, strict=True))
            reach = max(reach, elements * ITEMSIZE[tensor.dtype])
    for before, body, after in bodies:
        assert before.stop == body.start
        assert body.stop == after.start
        assert len({(region.fill, region.owner, region.dtype) for region in (before, body, after)}) == 1
    ends = [0, *(body.stop for _, body, _ in bodies)]
    starts = [*(body.start for _, body, _ in bodies), placement.allocations[0]]
    assert min(start - end for end, start in zip(ends, starts, strict=True)) > reach


@settings(max_examples=100, deadline=None)
@given(scenes(NO_FENCES))
def test_align_is_honoured(scene: Scene) -> None:
    """K, V and codes (the first layer's) lie at a multiple of `align`, below 16 of none larger; the rest is aligned."""
    placement = placed(scene)
    if placement is None:
        return
    case = scene.case
    apart = {"k_codes", "v_codes"} if scene.form.scales != "inline" else set()
    wished = 0 if case.align >= 16 else case.align
    for tensor in placement.tensors:
        if tensor.name in ("k", "v") and case.tokens:
            assert _body(placement, tensor).start % 16 == wished
        elif tensor.name in apart and scene.form.kind not in ("packed", "fused"):
            first = tensor.offset - case.layer * layer_pitch(tensor) * ITEMSIZE[tensor.dtype]
            assert first % 16 == (wished if case.align < 16 else 0)
        elif tensor.name == "slots" or tensor.name in NAMES:
            assert tensor.offset % 512 == 0


def _body(placement: Placement, tensor: Placed) -> Region:
    start, stop = extent(tensor)
    (region,) = _around(placement, tensor.allocation, start, stop)
    view_offset = tensor.offset - region.start
    assert view_offset % ITEMSIZE[tensor.dtype] == 0
    return region


@pytest.mark.parametrize("view", sorted(VIEWS))
@pytest.mark.parametrize("tensor", ["k", "v"])
def test_a_source_has_its_views_strides(view: str, tensor: str) -> None:
    """What a target is handed is what the case asks for."""
    case = Case(k_view=view if tensor == "k" else "dense", v_view=view if tensor == "v" else "dense", tokens=2)
    found = place(case, CONTRACTS[0], Form(), Accepts(), cuda=False).get(tensor)
    strides = {
        "dense": (384, 128, 1), "qkv": (1152, 128, 1), "kv": (768, 128, 1), "head_padded": (432, 144, 1),
        "head_interleaved": (1152, 384, 1), "transposed": (128, 256, 1), "every_second": (768, 128, 1),
        "inner2": (768, 256, 2), "expanded": (0, 128, 1), "offset1": (384, 128, 1), "offset8": (384, 128, 1),
        "offset17": (384, 128, 1),
    }  # fmt: skip
    assert found.dims == (2, 3, 128)
    assert found.strides == strides[view]


def test_k_and_v_of_one_parent_share_a_block() -> None:
    """Slices of one qkv tensor: V lies one tensor's heads behind K, and no guard between them."""
    placement = place(Case(k_view="qkv", v_view="qkv"), CONTRACTS[0], Form(), Accepts(), cuda=False)
    k, v = placement.get("k"), placement.get("v")
    assert (k.allocation, v.offset - k.offset) == (v.allocation, 3 * 128 * 2)
    assert {region.owner for region in placement.regions} >= {"kv"}


@pytest.mark.parametrize(("order", "first"), [("kv", "k"), ("vk", "v")])
@pytest.mark.parametrize("layout", ["arena", "pooled"])
def test_order_says_which_lies_first(order: str, first: str, layout: str) -> None:
    """What a kernel finds behind K depends on it."""
    case = Case(order="kv" if order == "kv" else "vk", layout=layout)
    placement = place(case, CONTRACTS[0], Form(), Accepts(), cuda=False)
    k, v = placement.get("k").offset, placement.get("v").offset
    assert (k < v) == (first == "k")


def test_pooled_is_one_slab_in_the_engines_order() -> None:
    """Caches, scales, slots, K and V at steps of 512 bytes in 2 MiB."""
    placement = place(Case(layout="pooled"), CONTRACTS[0], Form(), Accepts(), cuda=False)
    assert placement.allocations == (2 << 20,)
    at = {tensor.name: tensor.offset for tensor in placement.tensors}
    assert list(at) == ["k_codes", "v_codes", "k_scales", "v_scales", "slots", "k", "v"]
    codes, scales = 32 * 384, 512
    starts = [0, codes, 2 * codes, 2 * codes + scales, 2 * codes + 2 * scales, 2 * codes + 3 * scales]
    assert list(at.values()) == [*starts, starts[-1] + 8 * 384 * 2]
    assert not placement.independence
    assert placement.reason == "layout pooled has no poison"


def test_pooled_on_a_gpu_is_one_allocation_a_tensor() -> None:
    """There the real caching allocator decides."""
    placement = place(Case(layout="pooled"), CONTRACTS[0], Form(), Accepts(), cuda=True)
    assert [tensor.allocation for tensor in placement.tensors] == list(range(7))


def test_a_slab_grows_with_what_lies_in_it() -> None:
    """More than 2 MiB of tensors make a larger one."""
    placement = place(Case(layout="pooled", tokens=4096), CONTRACTS[0], Form(), Accepts(), cuda=False)
    assert placement.allocations[0] > 2 << 20


def test_given_scales_of_a_fused_form_lie_behind_each_other() -> None:
    """K's, then V's, so that one tensor shows both; apart everywhere else."""
    contract = Contract(scale=Given("head"))
    fused = place(Case(), contract, Form("fused", scales="none"), Accepts(), cuda=False)
    assert fused.get("v_scale").offset == fused.get("k_scale").offset + 3 * 4
    apart = place(Case(), contract, Form("slots", scales="none"), Accepts(), cuda=False)
    assert apart.get("v_scale").offset > apart.get("k_scale").offset + 512
