"""Placement at fences: a tensor touches the unmapped page as far as its alignment lets it."""

from __future__ import annotations

from hypothesis import given, settings

from kvcheck.addresses import extent
from kvcheck.contract import Accepts, Form
from kvcheck.emission import STORED
from kvcheck.memory.fences import FENCES
from kvcheck.memory.place import place
from kvcheck.schema import ITEMSIZE, Case

from .scenes import CONTRACTS, Scene, placed, scenes


@settings(max_examples=200, deadline=None)
@given(scenes(tuple(FENCES)))
def test_fenced_tensors_touch_their_fence_as_far_as_their_alignment_lets_them(scene: Scene) -> None:
    """Each allocation ends, or begins, less than its alignment away from a tensor, and exactly where that divides."""
    placement = placed(scene)
    if placement is None:
        return
    for index, size in enumerate(placement.allocations):
        inside = [tensor for tensor in placement.tensors if tensor.allocation == index and 0 not in tensor.dims]
        if not inside:
            continue
        source = {"k", "v"} & {tensor.name for tensor in inside}
        codes = {"k_codes", "v_codes"} & {tensor.name for tensor in inside} and scene.form.scales != "inline"
        step = scene.case.align if source or codes else max(ITEMSIZE[tensor.dtype] for tensor in inside)
        if FENCES[scene.case.layout] == "begin":  # where a page does
            cache = {tensor.name for tensor in inside} & set(STORED)
            before = scene.case.layer * size // scene.case.layers if cache else 0  # other layers' caches
            assert 0 <= min(extent(tensor)[0] for tensor in inside) - before < step
            continue
        assert size % step == 0  # its end is a page's, and so its beginning is aligned
        if source:
            assert size - max(extent(tensor)[1] for tensor in inside) < step
        else:
            (region,) = [region for region in placement.regions if region.allocation == index]
            assert region.stop == size


def test_a_fenced_view_keeps_the_alignment_that_it_has_elsewhere() -> None:
    """A view that begins at element 17 lies 34 bytes past a multiple of 16, wherever its fence is."""
    for layout in FENCES:
        case = Case(k_view="offset17", layout=layout)
        placement = place(case, CONTRACTS[0], Form(), Accepts(), cuda=False)
        k = placement.get("k")
        assert k.offset % 16 == 2
        assert layout == "fence-before" or placement.allocations[k.allocation] % 16 == 0


def test_a_target_that_takes_more_than_the_case_asks_for_gets_it_at_a_fence() -> None:
    """One element of 2 bytes, aligned to 64: the rest of the 64 bytes lie between it and its fence."""
    case = Case(heads=1, head_dim=1, tokens=1, layout="fence", align=2)
    placement = place(case, CONTRACTS[0], Form(), Accepts(align=64), cuda=False)
    k = placement.get("k")
    assert (k.offset, placement.allocations[k.allocation]) == (0, 64)
