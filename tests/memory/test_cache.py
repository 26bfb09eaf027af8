"""The cache that a target is handed: the engine's own shapes, over the bytes that the judge will read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings

from kvcheck.addresses import byte_offsets, element_offsets
from kvcheck.api import Cache, Side
from kvcheck.contract import Computed, Contract, Form, Given, LoadContract
from kvcheck.draw.image import case_inputs
from kvcheck.draw.tables import NAMES
from kvcheck.memory.arena import Bytes, Memory
from kvcheck.memory.cache import build_cache, build_output
from kvcheck.memory.forms import Unplaceable
from kvcheck.schema import ITEMSIZE, Case, Placed, Placement

from .scenes import CONTRACTS, Scene, scenes

Shape = tuple[int, ...]


def built(scene: Scene) -> tuple[Memory, Placement, Cache]:
    """Zeroed memory, and the cache in it. Raises Unplaceable."""
    placement = scene.place()
    memory = Memory(placement, torch.device("cpu"))
    memory.upload(tuple(np.zeros(size, np.uint8) for size in placement.allocations))
    inputs = case_inputs(placement, scene.case, scene.contract)
    return memory, placement, build_cache(memory, placement, scene.case, scene.contract, scene.form, inputs)


def random_bytes(count: int) -> Bytes:
    """Bytes of which none is zero, so that each write shows."""
    drawn: Bytes = np.random.default_rng(count).integers(1, 256, count, np.uint8)
    return drawn


def write(view: torch.Tensor, data: Bytes) -> None:
    """Fill a view, in the order of its indices."""
    view.copy_(torch.from_numpy(data).view(view.dtype).reshape(view.shape))


def read(memory: Memory, placed: Placed) -> npt.NDArray[np.uint8]:
    """The bytes of every element in cache coordinates, found by address: `[*dims, item]`."""
    offsets = byte_offsets(element_offsets(placed), ITEMSIZE[placed.dtype])
    found: npt.NDArray[np.uint8] = memory.download()[placed.allocation][offsets]
    return found


def untouched(memory: Memory, placed: Placed) -> None:
    """Everything but the tensor's own bytes is still zero."""
    arrays = memory.download()
    arrays[placed.allocation][byte_offsets(element_offsets(placed), ITEMSIZE[placed.dtype]).reshape(-1)] = 0
    assert not any(array.any() for array in arrays)


def through(memory: Memory, view: torch.Tensor, placed: Placed, order: Shape) -> None:
    """Write through `view`, whose axes are `order` of the cache coordinates, and read by address."""
    data = random_bytes(view.numel() * ITEMSIZE[placed.dtype])
    write(view, data)
    shape = (*(placed.dims[axis] for axis in order), ITEMSIZE[placed.dtype])
    back = np.argsort(order)
    expected = data.reshape(shape).transpose(*back, len(order))
    assert np.array_equal(read(memory, placed), expected)
    untouched(memory, placed)
    write(view, np.zeros_like(data))


def engine_order(form: Form, rank: int) -> Shape:
    """The cache coordinates' axes in the engine's shape; a form without pages has one row a page."""
    return (0, 2, 1, 3, 4)[:rank] if form.kind in ("heads_pages", "packed") else tuple(range(rank))


@settings(max_examples=100, deadline=None)
@given(scenes())
def test_views_address_the_bytes_of_the_cache_coordinates(scene: Scene) -> None:
    """Written through `.codes`, `.pages`, `.scales`, `.scale_pages`, every byte lies where addresses say."""
    try:
        memory, placement, cache = built(scene)
    except Unplaceable:
        return
    sides: tuple[Side, ...] = (cache.k, cache.v)
    for side in sides:
        for kind, logical, pages in (("codes", "codes", "pages"), ("scales", "scales", "scale_pages")):
            placed = placement.find(f"{side.name}_{kind}")
            if placed is None:
                with pytest.raises(LookupError, match="no scales in the cache"):
                    side._view(pages)
                continue
            rank = len(placed.dims)
            view = side._view(pages)
            if scene.form.kind in ("slots", "fused"):
                assert view.shape == (placement.slots, *placed.dims[2:])
                view = view[:, None]
            through(memory, view, placed, engine_order(scene.form, rank))
            if logical in side.views:
                whole = side._view(logical)
                assert whole.shape == (placement.slots, *placed.dims[2:])
                through(memory, whole.view(placed.dims), placed, tuple(range(rank)))
            else:
                assert placed.strides[0] != placed.dims[1] * placed.strides[1]
                with pytest.raises(LookupError, match=r"no one stride leads from slot to slot .* use \.pages"):
                    side._view(logical)


def test_logical_views_exist_where_one_stride_leads_from_slot_to_slot() -> None:
    """Slots and pages have them; head-major pages only for one head, or one row a page."""
    logical = {
        (kind, heads, page): "codes" in built(Scene(Case(heads=heads), CONTRACTS[0], Form(kind, page=page)))[2].k.views
        for kind in ("slots", "pages", "heads_pages", "packed", "fused")
        for heads in (1, 3)
        for page in (1, 16)
    }
    missing = {key for key, found in logical.items() if not found}
    assert missing == {("heads_pages", 3, 16), ("packed", 3, 16)}


@pytest.mark.parametrize(
    ("form", "k_pages", "k_scales"),
    [
        (Form("slots"), ((32, 3, 8), (24, 8, 1)), ((32, 3), (3, 1))),
        (Form("pages", page=4), ((6, 4, 3, 8), (96, 24, 8, 1)), ((6, 4, 3), (12, 3, 1))),
        (Form("heads_pages", page=4), ((6, 3, 4, 8), (96, 32, 8, 1)), ((6, 3, 4), (12, 4, 1))),
        (Form("packed", page=4), ((6, 3, 4, 8), (192, 64, 16, 1)), ((6, 3, 4), (12, 4, 1))),
        (Form("fused"), ((32, 3, 8), (48, 8, 1)), ((32, 3), (3, 1))),
        (Form("pages", page=4, scales="inline"), ((6, 4, 3, 8), (144, 36, 12, 1)), ((6, 4, 3), (36, 9, 3))),
        (
            Form("heads_pages", page=4, scales="inline", inline_pad=4),
            ((6, 3, 4, 8), (192, 64, 16, 1)),
            ((6, 3, 4), (48, 16, 4)),
        ),
    ],
)
def test_shapes_and_strides_of_every_form(
    form: Form, k_pages: tuple[Shape, Shape], k_scales: tuple[Shape, Shape]
) -> None:
    """`[slots, heads, dim]`, `[pages, page, heads, dim]`, `[pages, heads, page, dim]`, K's part of the last axis."""
    _, _, cache = built(Scene(Case(head_dim=8), CONTRACTS[0], form))
    assert (tuple(cache.k.pages.shape), cache.k.pages.stride()) == k_pages
    assert (tuple(cache.k.scale_pages.shape), cache.k.scale_pages.stride()) == k_scales
    assert cache.k.scale_pages.dtype == torch.float32
    assert (cache.slots, cache.page) == (
        k_pages[0][0] * (1 if len(k_pages[0]) == 3 else 4),
        (len(k_pages[0]) - 3) * 3 + 1,
    )


@settings(max_examples=60, deadline=None)
@given(scenes())
def test_layers_lie_one_behind_the_other(scene: Scene) -> None:
    """No two share a byte, nothing lies beside them, and the one that is given is the one that the case says."""
    try:
        memory, placement, cache = built(scene)
    except Unplaceable:
        return
    assert (cache.layers, cache.layer) == (scene.case.layers, scene.case.layers // 2)
    for side in (cache.k, cache.v):
        for name, pages in (("layers", "pages"), ("scale_layers", "scale_pages")):
            placed = placement.find(f"{side.name}_{'codes' if name == 'layers' else 'scales'}")
            if placed is None:
                with pytest.raises(LookupError, match="no scales in the cache"):
                    side.scale_layers  # noqa: B018 - asking raises
                continue
            whole, one = side._view(name), side._view(pages)
            assert whole.shape == (cache.layers, *one.shape)
            assert whole[cache.layer].data_ptr() == one.data_ptr()
            assert whole.stride()[1:] == one.stride()
            write(whole, random_bytes(whole.numel() * ITEMSIZE[placed.dtype]))
            written = memory.download()
            assert sum(map(np.count_nonzero, written)) == whole.numel() * ITEMSIZE[placed.dtype]
            for region in placement.regions:
                if region.owner == "cache":
                    written[region.allocation][region.start : region.stop] = 0
            assert not any(array.any() for array in written)
            write(whole, np.zeros(whole.numel() * ITEMSIZE[placed.dtype], np.uint8))


@pytest.mark.parametrize(("kind", "axis"), [("packed", -1), ("fused", 1)])
def test_one_tensor_holds_k_and_v_where_the_form_says_so(kind: str, axis: int) -> None:
    """K's part of `cache.fused`, then V's, are K's and V's pages."""
    memory, _, cache = built(Scene(Case(), CONTRACTS[0], Form("packed" if kind == "packed" else "fused", page=4)))
    k, v = cache.k.pages, cache.v.pages
    size = k.shape[axis]
    assert cache.fused.shape[axis] == size + v.shape[axis]
    write(cache.fused, random_bytes(cache.fused.numel()))
    assert torch.equal(cache.fused.narrow(axis, 0, size), k)
    assert torch.equal(cache.fused.narrow(axis, size, v.shape[axis]), v)
    assert sum(int(np.count_nonzero(array)) for array in memory.download()) == cache.fused.numel()


def test_a_packed_cache_takes_unlike_head_dims() -> None:
    """The last axis is K's head_dim and V's."""
    _, _, cache = built(Scene(Case(head_dim=16, head_dim_v=8), CONTRACTS[0], Form("packed", page=4)))
    assert cache.fused.shape == (6, 3, 4, 24)
    assert (cache.k.pages.shape[-1], cache.v.pages.shape[-1]) == (16, 8)


def test_inline_rows_are_codes_then_scale_then_pad() -> None:
    """Seen as fp32, column head_dim / 4 of the rows is the scale."""
    form = Form("pages", page=4, scales="inline", inline_pad=4)
    _, _, cache = built(Scene(Case(head_dim=8), CONTRACTS[0], form))
    rows = cache.k.rows
    assert (tuple(rows.shape), rows.dtype) == ((6, 4, 3, 16), torch.uint8)
    column = rows.view(torch.float32)[..., 8 // 4]
    cache.k.scale_pages.copy_(torch.arange(72.0).reshape(6, 4, 3) + 1)
    assert torch.equal(column, cache.k.scale_pages)
    assert column.stride() == cache.k.scale_pages.stride()
    assert rows[..., :8].data_ptr() == cache.k.pages.data_ptr()
    assert int(torch.count_nonzero(rows[..., 12:])) == 0


def test_given_scales_are_handed_over_as_the_contract_says() -> None:
    """A tensor of one or of one a head, in its dtype; or a float; in one tensor for a fused form."""
    case = Case(k_scale="2^-3", v_scale="2^-5")
    _, _, cache = built(Scene(case, Contract(scale=Given("head", dtype="bf16")), Form()))
    assert (tuple(cache.k.scale.shape), cache.k.scale.dtype) == ((3,), torch.bfloat16)
    with pytest.raises(LookupError, match="scale_value"):
        cache.k.scale_value  # noqa: B018 - asking raises
    _, _, cache = built(Scene(case, Contract(scale=Given("tensor", as_float=True)), Form()))
    assert (cache.k.scale_value, cache.v.scale_value) == (0.125, 0.03125)
    with pytest.raises(LookupError, match=r"cache\.k\.scale: .*scale_value"):
        cache.k.scale  # noqa: B018
    with pytest.raises(LookupError, match="fused_scale"):
        cache.fused_scale  # noqa: B018
    _, placement, cache = built(Scene(case, Contract(scale=Given("tensor")), Form("fused")))
    assert (tuple(cache.fused_scale.shape), cache.fused_scale.stride()) == ((2,), (1,))
    assert cache.fused_scale.data_ptr() == cache.k.scale.data_ptr()
    assert cache.fused_scale[1:].data_ptr() == cache.v.scale.data_ptr()
    assert placement.find("k_scales") is None


def test_what_a_form_lacks_is_said_when_asked_for() -> None:
    """A sentence names the view and what to ask for."""
    _, _, cache = built(Scene(Case(), CONTRACTS[0], Form()))
    with pytest.raises(LookupError, match=r"cache\.k\.rows: the form does not say scales='inline'"):
        cache.k.rows  # noqa: B018
    with pytest.raises(LookupError, match=r"cache\.fused: K and V lie in tensors of their own"):
        cache.fused  # noqa: B018
    with pytest.raises(LookupError, match=r"cache\.tables: .*addressed_by='block_table'"):
        cache.tables  # noqa: B018
    with pytest.raises(LookupError, match=r"cache\.v\.scale: the contract does not say Given"):
        cache.v.scale  # noqa: B018


def test_tables_are_views_of_placed_memory() -> None:
    """int32, one request a token, each where the placement has it."""
    scene = Scene(Case(tokens=5), CONTRACTS[0], Form("pages", addressed_by="block_table"))
    memory, placement, cache = built(scene)
    shapes = [tuple(vars(cache.tables)[name].shape) for name in NAMES]
    assert shapes == [(5, 1), (5,), (5,), (6,), (5,), (5,)]
    for name in NAMES:
        table = vars(cache.tables)[name]
        assert table.dtype == torch.int32
        assert table.data_ptr() == memory.tensor(placement.get(name)).data_ptr()


def test_outputs_are_dense_and_of_the_contracts_dtype() -> None:
    """`[tokens, heads, head_dim]`, V's of its own width."""
    scene = Scene(Case(head_dim=16, head_dim_v=8, tokens=5), LoadContract(out="fp16"), Form())
    memory, placement, _ = built(scene)
    out = build_output(memory, placement)
    assert (tuple(out.k.shape), out.k.stride(), out.k.dtype) == ((5, 3, 16), (48, 16, 1), torch.float16)
    assert (tuple(out.v.shape), out.v.stride()) == ((5, 3, 8), (24, 8, 1))


def test_block_scales_have_one_axis_more() -> None:
    """`[slots, heads, blocks]`."""
    _, _, cache = built(Scene(Case(), Contract(scale=Computed("block:32")), Form("heads_pages", page=4)))
    assert (tuple(cache.k.scale_pages.shape), cache.k.scale_pages.stride()) == ((6, 3, 4, 4), (48, 16, 4, 1))
