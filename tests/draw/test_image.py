"""Images: what every byte holds before a launch, and what must not depend on where tensors lie."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, TypeAlias, get_args

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.addresses import byte_offsets, element_offsets, row_offsets
from kvcheck.contract import Accepts, Computed, Contract, Form, Given, LoadContract
from kvcheck.draw import dtypes
from kvcheck.draw.image import case_inputs, images, loaded_rows, prefill_rows
from kvcheck.draw.inputs import amax
from kvcheck.draw.slots import unaddressed
from kvcheck.draw.tables import NAMES, tables
from kvcheck.draw.visibility import independence_reason
from kvcheck.formats.decode import decode
from kvcheck.memory.place import place
from kvcheck.schema import ITEMSIZE, Case, Placed, Placement, Poison, Prefill
from kvcheck.views import VIEWS, repeats

COMPUTED = Contract(scale=Computed("token_head"))
Bytes = npt.NDArray[np.uint8]

PLAN: tuple[tuple[Prefill, Poison], ...] = (("A", "A"), ("B", "B"), ("C", "A"))


def laid(case: Case, contract: Contract | LoadContract = COMPUTED, form: Form | None = None) -> Placement:
    """A placement on the CPU."""
    return place(case, contract, Form() if form is None else form, Accepts(), cuda=False)


def content(arrays: tuple[Bytes, ...], tensor: Placed) -> Bytes:
    """The bytes of every element of a tensor: `[*dims, item]`."""
    return arrays[tensor.allocation][byte_offsets(element_offsets(tensor), ITEMSIZE[tensor.dtype])]


def covered(placement: Placement) -> tuple[npt.NDArray[np.bool_], ...]:
    """Which bytes of each allocation are a tensor's."""
    masks = tuple(np.zeros(size, np.bool_) for size in placement.allocations)
    for tensor in placement.tensors:
        masks[tensor.allocation][byte_offsets(element_offsets(tensor), ITEMSIZE[tensor.dtype]).reshape(-1)] = True
    return masks


def bare(placement: Placement, fill: str) -> list[tuple[str, int, npt.NDArray[np.int64]]]:
    """The bytes of each region of a fill that no tensor owns: owner, allocation, offsets."""
    masks = covered(placement)
    found = []
    for region in placement.regions:
        if region.fill == fill:
            offsets = np.arange(region.start, region.stop, dtype=np.int64)
            found.append((region.owner, region.allocation, offsets[~masks[region.allocation][offsets]]))
    return found


def source_values(arrays: tuple[Bytes, ...], allocation: int, offsets: npt.NDArray[np.int64], case: Case) -> Bytes:
    """Storage bits at runs of whole elements, as bytes."""
    assert len(offsets) % ITEMSIZE[case.dtype] == 0
    return arrays[allocation][offsets]


def floats(raw: Bytes, case: Case) -> npt.NDArray[np.float32]:
    """Storage bytes as exact fp32."""
    kind = np.uint32 if case.dtype == "fp32" else np.uint16
    return dtypes.to_float32(np.ascontiguousarray(raw).reshape(-1).view(kind), case.dtype)


Dtype: TypeAlias = Literal["bf16", "fp16", "fp32"]
VIEW = st.sampled_from(sorted(VIEWS))
LAYOUT = st.sampled_from(["arena", "pooled", "recycled", "exact"])


@settings(max_examples=40, deadline=None)
@given(VIEW, VIEW, LAYOUT, st.sampled_from(get_args(Dtype)), st.integers(0, 5), st.integers(0, 3))
def test_logical_inputs_do_not_depend_on_view_or_layout(
    k_view: str, v_view: str, layout: str, dtype: Dtype, tokens: int, seed: int
) -> None:
    """What a kernel reads through K's, V's and the slots' strides is what the dense case in an arena holds."""
    plain = Case(dtype=dtype, tokens=tokens, heads=2, head_dim=8, seed=seed)
    case = msgspec.structs.replace(plain, k_view=k_view, v_view=v_view, layout=layout)
    placement = laid(case)
    arrays, reference = images(placement, case, COMPUTED, "A", "A"), case_inputs(laid(plain), plain, COMPUTED)
    for name, view, bits in (("k", k_view, reference.k), ("v", v_view, reference.v)):
        expected = np.broadcast_to(bits[:1], bits.shape) if repeats(view) and tokens else bits
        found = content(arrays, placement.get(name))
        assert found.tobytes() == np.ascontiguousarray(expected).tobytes()
    assert content(arrays, placement.get("slots")).tobytes() == reference.slots.tobytes()


@settings(max_examples=30, deadline=None)
@given(VIEW, VIEW, st.sampled_from(["normal*5", "normal*0.01", "all_zero"]), st.sampled_from(["kv", "vk"]))
def test_poison_lies_in_every_gap_and_guard_of_sources(k_view: str, v_view: str, values: str, order: str) -> None:
    """Larger than anything the tensors hold, of both signs, and another in each poison."""
    case = Case(
        k_view=k_view, v_view=v_view, k_values=values, tokens=3, heads=2, head_dim=8,
        order="kv" if order == "kv" else "vk",
    )  # fmt: skip
    placement = laid(case)
    assert placement.independence
    inputs = case_inputs(placement, case, COMPUTED)
    top = {"k": amax(inputs.k_float), "v": amax(inputs.v_float)}
    first, second = (images(placement, case, COMPUTED, "A", letter) for letter in ("A", "B"))
    gaps = bare(placement, "poison")
    assert {owner for owner, _, _ in gaps} in ({"k", "v"}, {"kv"})
    for owner, allocation, offsets in gaps:
        if not len(offsets):
            continue
        near = max(top[name] for name in owner) or 1.0
        a, b = (floats(source_values(each, allocation, offsets, case), case) for each in (first, second))
        assert np.abs(a).min() >= 2 * near
        assert np.abs(a).max() < 8 * near
        assert np.abs(b).min() >= 8 * near
        assert np.abs(b).max() < 32 * near
        if len(a) > 100:
            assert 0.2 < (a < 0).mean() < 0.8
            assert len(np.unique(a)) > 20


def test_every_byte_around_sources_is_poison_or_a_tensors() -> None:
    """From the first poison region to the last there is no byte of another kind."""
    case = Case(k_view="head_padded", v_view="offset17", tokens=3)
    placement = laid(case)
    regions = [region for region in placement.regions if region.owner in ("k", "v")]
    assert {region.fill for region in regions} == {"poison"}
    assert all(was.stop == now.start for was, now in pairwise(regions))
    assert regions[-1].stop == placement.allocations[0]


@pytest.mark.parametrize("form", [Form(), Form("heads_pages", page=4), Form("pages", page=4, scales="inline")])
def test_prefills_differ_in_every_byte(form: Form) -> None:
    """Caches, scales and their guards: no byte is the same in two of the three."""
    case = Case(tokens=3)
    placement = laid(case, form=form)
    found = [images(placement, case, COMPUTED, prefill, poison) for prefill, poison in PLAN]
    regions = [region for region in placement.regions if region.fill == "prefill"]
    assert sum(region.stop - region.start for region in regions) > 10_000
    for one, other in ((0, 1), (0, 2), (1, 2)):
        for region in regions:
            span = slice(region.start, region.stop)
            was, now = found[one][region.allocation][span], found[other][region.allocation][span]
            assert (was != now).all()
    for name in ("k_codes", "v_scales"):
        tensor = placement.get(name)
        offsets = byte_offsets(element_offsets(tensor), ITEMSIZE[tensor.dtype])
        for (letter, _), arrays in zip(PLAN, found, strict=True):
            assert np.array_equal(prefill_rows(placement, case, name, offsets, letter), content(arrays, tensor))


def test_all_else_is_the_same_in_every_launch() -> None:
    """Slots, their guards, K and V do not change with prefill; poison changes with poison alone."""
    case = Case(tokens=3, k_view="every_second")
    placement = laid(case)
    first, _, third = (images(placement, case, COMPUTED, prefill, poison)[0] for prefill, poison in PLAN)
    outside = np.ones(len(first), np.bool_)
    for region in placement.regions:
        if region.fill == "prefill":
            outside[region.start : region.stop] = False
    assert outside.sum() > 1000
    assert np.array_equal(first[outside], third[outside])


@pytest.mark.parametrize("slot_dtype", ["int32", "int64"])
@pytest.mark.parametrize("slots", ["permuted", "negative_mixed", "all_negative"])
@pytest.mark.parametrize("slot_view", ["dense", "every_second"])
def test_slot_guards_are_valid_and_unaddressed(slot_dtype: str, slots: str, slot_view: str) -> None:
    """A kernel that reads a slot too many stores where it shows, and never outside the cache."""
    case = Case(
        slot_dtype="int32" if slot_dtype == "int32" else "int64", slots=slots,
        slot_view="dense" if slot_view == "dense" else "every_second",
    )  # fmt: skip
    placement = laid(case)
    inputs = case_inputs(placement, case, COMPUTED)
    arrays = images(placement, case, COMPUTED, "A", "A")
    free = set(unaddressed(inputs.slots, placement.slots).tolist())
    guards = [each for each in bare(placement, "slot_ids") if each[0] == "slots"]
    assert sum(len(offsets) for _, _, offsets in guards) > 1000
    for _, allocation, offsets in guards:
        ids = arrays[allocation][offsets].view(np.int32 if slot_dtype == "int32" else np.int64)
        assert set(ids.tolist()) <= free
        assert len(offsets) < 1000 or len(set(ids.tolist())) > 1


@pytest.mark.parametrize("page", [1, 4, 16])
def test_tables_and_their_guards(page: int) -> None:
    """Tables hold what addresses the slots; around them stand pages of the cache, unaddressed ones where there are."""
    case = Case(slots="negative_mixed")
    form = Form("pages", page=page, addressed_by="block_table")
    placement = laid(case, form=form)
    inputs = case_inputs(placement, case, COMPUTED)
    arrays = images(placement, case, COMPUTED, "A", "A")
    for name, table in tables(inputs.slots, page).items():
        assert content(arrays, placement.get(name)).tobytes() == table.tobytes()
    pages = placement.slots // page
    taken = set((inputs.slots[inputs.slots >= 0] // page).tolist())
    allowed = set(range(pages)) - taken or set(range(pages))
    guards = [each for each in bare(placement, "slot_ids") if each[0] in NAMES]
    assert {owner for owner, _, _ in guards} == set(NAMES)
    for _, allocation, offsets in guards:
        assert set(arrays[allocation][offsets].view(np.int32).tolist()) <= allowed


@pytest.mark.parametrize("dtype", get_args(Dtype))
def test_given_scales_hold_their_numbers(dtype: Dtype) -> None:
    """K's and V's, one a head, in the contract's dtype."""
    contract = Contract(scale=Given("head", dtype=dtype))
    case = Case(k_scale="2^-3", v_scale="2^-6", tokens=2)
    placement = laid(case, contract)
    arrays = images(placement, case, contract, "A", "A")
    for name, base in (("k_scale", 2.0**-3), ("v_scale", 2.0**-6)):
        raw = content(arrays, placement.get(name)).reshape(-1)
        found = dtypes.to_float32(raw.view(np.uint32 if dtype == "fp32" else np.uint16), dtype)
        assert found.tolist() == [base, base * 2, base / 2]


def test_a_load_finds_codes_and_scales_in_its_rows_alone() -> None:
    """Addressed rows hold what was drawn; every other byte of the cache is prefill, unlike in each launch."""
    case, contract, form = Case(slots="permuted"), LoadContract(), Form("pages", page=4, scales="inline")
    placement = laid(case, contract, form)
    inputs = case_inputs(placement, case, contract)
    rows = loaded_rows(placement, case, contract, inputs)
    assert set(rows) == {"k_codes", "v_codes", "k_scales", "v_scales"}
    found = [images(placement, case, contract, prefill, poison)[0] for prefill, poison in PLAN]
    same = np.zeros(len(found[0]), np.bool_)
    for name, data in rows.items():
        tensor = placement.get(name)
        offsets = byte_offsets(row_offsets(tensor, inputs.slots), ITEMSIZE[tensor.dtype])
        for array in found:
            assert array[offsets].tobytes() == np.ascontiguousarray(data).tobytes()
        same[offsets.reshape(-1)] = True
    for region in placement.regions:
        if region.fill == "prefill":
            span = np.zeros(len(same), np.bool_)
            span[region.start : region.stop] = True
            rest = span & ~same
            assert (found[0][rest] != found[1][rest]).all()
            assert (found[0][rest] != found[2][rest]).all()
    assert placement.independence


def test_a_load_without_a_scale_a_row_finds_codes_alone() -> None:
    """One scale a head is handed over, not stored in rows."""
    case, contract = Case(tokens=2), LoadContract(scale="head")
    placement = laid(case, contract)
    assert set(loaded_rows(placement, case, contract, case_inputs(placement, case, contract))) == {"k_codes", "v_codes"}
    scale = content(images(placement, case, contract, "A", "A"), placement.get("k_scale")).reshape(-1).view(np.float32)
    assert scale.tolist() == [0.125, 0.25, 0.0625]


def test_poison_that_no_value_exceeds_is_not_judged() -> None:
    """A tensor that fills its dtype leaves nothing larger."""
    case = Case(k_values="normal*1e38", tokens=2)
    placement = laid(case)
    assert not placement.independence
    assert placement.reason == "no bf16 value is larger than K's amax, so no poison would show"


@pytest.mark.parametrize("direction", ["divisor", "multiplier"])
def test_poison_under_a_given_scale_has_codes_of_its_own(direction: str) -> None:
    """Whatever the values' size: not saturated, and eight codes or more above zero."""
    contract = Contract(scale=Given("tensor", direction="divisor" if direction == "divisor" else "multiplier"))
    for values, scale in (("normal", "2^-3"), ("normal*0.01", "2^-8"), ("normal*100", "2^3"), ("normal*0.001", "2^5")):
        case = Case(k_values=values, v_values=values, k_scale=scale, v_scale=scale, tokens=2)
        placement = laid(case, contract)
        assert placement.independence
        inputs = case_inputs(placement, case, contract)
        assert inputs.k_scale is not None
        assert inputs.v_scale is not None
        given_scales = {"k": float(inputs.k_scale[0]), "v": float(inputs.v_scale[0])}
        for letter in ("A", "B"):
            arrays = images(placement, case, contract, "A", letter)
            for owner, allocation, offsets in bare(placement, "poison"):
                if not len(offsets):
                    continue
                found = np.abs(floats(arrays[allocation][offsets], case)).astype(np.float64)
                scaled = found / given_scales[owner] if direction == "divisor" else found * given_scales[owner]
                assert scaled.max() < 448
                assert scaled.min() >= decode(np.array([8], np.uint8))[0] * (1 - 2.0**-8)


def test_a_scale_beyond_the_dtype_hides_all_poison() -> None:
    """No fp16 value has a code of its own under a scale of 2^24: then independence is not judged."""
    contract = Contract(scale=Given("tensor"))
    placement = laid(Case(dtype="fp16", k_scale="2^24", tokens=2), contract)
    assert placement.reason == "K's scale turns every fp16 value into codes near zero, so no poison would show"
    assert not placement.independence


@pytest.mark.parametrize(
    ("contract", "says"),
    [
        (COMPUTED, "no fp32 value is larger than V's amax, so no poison would show"),
        (LoadContract(), ""),
        (Contract(scale=None), ""),
    ],
)
def test_the_reason_goes_by_the_contract(contract: Contract | LoadContract, says: str) -> None:
    """A load reads no source; with no scale poison need only not saturate."""
    case = Case(v_values="normal*3e38", dtype="fp32", tokens=2)
    inputs = case_inputs(laid(case), case, COMPUTED)
    assert independence_reason(case, contract, inputs) == says


def test_no_tokens_leave_nothing_to_outdo() -> None:
    """An empty tensor has no amax."""
    assert laid(Case(tokens=0)).independence


def test_other_layouts_hold_ordinary_data_around_nothing() -> None:
    """K's parent in a pooled layout holds values like K's own between its rows."""
    case = Case(k_view="every_second", layout="pooled", k_values="normal*5")
    placement = laid(case)
    arrays = images(placement, case, COMPUTED, "A", "A")
    top = amax(case_inputs(placement, case, COMPUTED).k_float)
    gaps = [each for each in bare(placement, "ordinary") if each[0] == "k"]
    values = floats(arrays[0][np.concatenate([offsets for _, _, offsets in gaps])], case)
    assert 0.45 * top < np.abs(values).max() <= top
