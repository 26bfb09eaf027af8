"""Views: strides and offsets into a parent, which must hold every element once."""  # noqa: INP001 - each folder of tests is a package of its own

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.schema import Tensor
from kvcheck.views import ACCEPTED, CACHE_VIEWS, VIEWS, Shape, View, is_view, repeats, view

SIZES = st.tuples(st.integers(0, 5), st.integers(1, 4), st.integers(1, 20), st.integers(1, 20))


def shape(tensor: Tensor, sizes: tuple[int, int, int, int]) -> Shape:
    """Sizes of K or V from (tokens, heads, K's head_dim, V's)."""
    tokens, heads, dim_k, dim_v = sizes
    return Shape(tensor, tokens, heads, dim_k if tensor == "k" else dim_v, dim_k, dim_v)


def offsets(found: View, sizes: Shape) -> npt.NDArray[np.int64]:
    """Where each element lies in its parent: `[tokens, heads, dim]`."""
    indices = np.indices((sizes.tokens, sizes.heads, sizes.dim))
    return np.asarray(found.offset + sum(i * s for i, s in zip(indices, found.strides, strict=True)), np.int64)


@given(st.sampled_from(sorted(VIEWS)), st.sampled_from(["k", "v"]), SIZES)
def test_every_element_lies_once_in_its_parent(name: str, tensor: Tensor, sizes: tuple[int, int, int, int]) -> None:
    """None outside, no two on each other; an expanded view shows one row for every token."""
    made = shape(tensor, sizes)
    found = view(name, made)
    where = offsets(found, made)
    if where.size:
        assert where.min() >= 0
        assert where.max() < found.elements
    rows = where[:1] if repeats(name) else where
    assert len(np.unique(rows)) == rows.size
    if repeats(name):
        assert (where == where[:1]).all()


@given(st.sampled_from(["qkv", "kv"]), SIZES)
def test_slices_of_one_parent_lie_side_by_side(name: str, sizes: tuple[int, int, int, int]) -> None:
    """K and V share a parent and no element; each token's V begins where its K ends."""
    k_shape, v_shape = shape("k", sizes), shape("v", sizes)
    k, v = view(name, k_shape), view(name, v_shape)
    assert k.parent == v.parent == name
    assert (k.elements, k.strides[0]) == (v.elements, v.strides[0])
    assert v.offset - k.offset == k_shape.heads * k_shape.dim
    both = np.concatenate([offsets(k, k_shape).ravel(), offsets(v, v_shape).ravel()])
    assert len(np.unique(both)) == both.size


@pytest.mark.parametrize(
    ("name", "strides", "offset", "elements"),
    [
        ("dense", (384, 128, 1), 0, 3072),
        ("qkv", (1152, 128, 1), 768, 9216),
        ("kv", (768, 128, 1), 384, 6144),
        ("head_padded", (432, 144, 1), 0, 3456),
        ("head_interleaved", (1152, 384, 1), 256, 9216),
        ("transposed", (128, 1024, 1), 0, 3072),
        ("every_second", (768, 128, 1), 0, 6144),
        ("inner2", (768, 256, 2), 0, 6144),
        ("expanded", (0, 128, 1), 0, 384),
        ("offset1", (384, 128, 1), 1, 3073),
        ("offset8", (384, 128, 1), 8, 3080),
        ("offset17", (384, 128, 1), 17, 3089),
        ("1000,130,3+5", (1000, 130, 3), 5, 5 + 7 * 1000 + 2 * 130 + 127 * 3 + 1),
        ("0,128,1", (0, 128, 1), 0, 384),
    ],
)
def test_views_of_v_by_name(name: str, strides: tuple[int, int, int], offset: int, elements: int) -> None:
    """8 tokens, 3 heads, head_dim 128: the numbers of the case that kvcheck grew from, and its neighbours."""
    found = view(name, Shape("v", 8, 3, 128, 128, 128))
    assert (found.strides, found.offset, found.elements) == (strides, offset, elements)
    assert is_view(name)


def test_k_is_the_first_of_its_parent() -> None:
    """Behind Q in qkv, at the front of kv, second of three in the interleaved one."""
    found = {name: view(name, Shape("k", 8, 3, 128, 128, 64)).offset for name in ("qkv", "kv", "head_interleaved")}
    assert found == {"qkv": 384, "kv": 0, "head_interleaved": 128}


@pytest.mark.parametrize("name", ["", "densest", "1,2", "1,2,3,4", "-1,2,3", "1,2,3+", "1,2,3 ", "1.0,2,3"])
def test_what_is_no_view(name: str) -> None:
    """The sentence says what is accepted."""
    assert not is_view(name)
    with pytest.raises(ValueError, match="is not a view; accepted: dense, qkv, ") as caught:
        view(name, Shape("k", 1, 1, 1, 1, 1))
    assert str(caught.value) == f"{name!r} is not a view; accepted: {ACCEPTED}"


def test_only_views_without_a_token_pitch_repeat() -> None:
    """By name, or by explicit strides that begin with 0."""
    names = [*VIEWS, "0,128,1", "10,0,1", "0,0,0+4"]
    assert [name for name in names if repeats(name)] == ["expanded", "0,128,1", "0,0,0+4"]


def test_empty_explicit_views_have_a_parent() -> None:
    """No tokens: no reach beyond the first element."""
    assert view("1000,130,3", Shape("k", 0, 3, 128, 128, 128)).elements == 2 * 130 + 127 * 3 + 1


def test_caches_of_every_view_pad_codes_and_scales_unalike() -> None:
    """A kernel that takes the codes' pitch for the scales' shows; 'dense' pads nothing."""
    for name, pads in CACHE_VIEWS.items():
        scales = pads.of_scales()
        assert (pads.row, pads.head) != (0, 0) or name == "dense"
        for codes_pad, scales_pad in ((pads.row, scales.row), (pads.head, scales.head)):
            assert (codes_pad == scales_pad) == (codes_pad == 0)
            assert (codes_pad > 0) == (scales_pad > 0)
