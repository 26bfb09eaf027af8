"""What cannot be laid out is told in a sentence, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.contract import Accepts, Computed, Contract, Form
from kvcheck.memory.forms import Unplaceable
from kvcheck.schema import Case

from .scenes import CONTRACTS, Scene

FUSED = "takes one fused tensor of K heads, then V heads"


@pytest.mark.parametrize(
    ("scene", "sentence"),
    [
        (
            Scene(Case(head_dim=128, head_dim_v=64), CONTRACTS[0], Form("fused")),
            "a fused cache holds one head_dim; the case has 128 for K and 64 for V",
        ),
        (
            Scene(Case(head_dim=46), CONTRACTS[0], Form("pages", scales="inline")),
            "inline fp32 scales need head_dim and row length in multiples of 4 bytes; head_dim is 46, the row 50 bytes",
        ),
        (
            Scene(Case(head_dim=64), CONTRACTS[0], Form("pages", scales="inline", inline_pad=2)),
            "inline fp32 scales need head_dim and row length in multiples of 4 bytes; head_dim is 64, the row 70 bytes",
        ),
        (
            Scene(Case(head_dim=46), CONTRACTS[0], Form("pages", scales="inline", inline_pad=2)),
            "inline fp32 scales need head_dim and row length in multiples of 4 bytes; head_dim is 46, the row 52 bytes",
        ),
        (
            Scene(Case(), Contract(scale=Computed("block:64")), Form("pages", scales="inline")),
            "inline scales are one fp32 number a token and head; the contract has fp32 ones per block:64",
        ),
        (
            Scene(Case(), Contract(scale=Computed(dtype="fp16")), Form("slots", scales="inline")),
            "inline scales are one fp32 number a token and head; the contract has fp16 ones per token_head",
        ),
        (
            Scene(Case(head_dim=100), Contract(scale=Computed("block:64")), Form()),
            "head_dim 100 is not a multiple of the scale's block of 64",
        ),
        (
            Scene(Case(), Contract(scale=Computed("head")), Form()),
            "a scale computed per head has no place in a cache's rows yet",
        ),
        (Scene(Case(align=1), CONTRACTS[0], Form()), "align 1 is less than an element of bf16"),
        (Scene(Case(align=2, dtype="fp32"), CONTRACTS[0], Form()), "align 2 is less than an element of fp32"),
        (
            Scene(Case(layout="nowhere"), CONTRACTS[0], Form()),
            "layout 'nowhere' is not one that kvcheck lays out",
        ),
        (
            Scene(Case(k_view="qkv", head_dim=64), CONTRACTS[0], Form("fused"), Accepts(source="fused_kv")),
            f"{FUSED}; the case has k_view qkv, v_view dense, head_dims 64 and 64",
        ),
        (
            Scene(Case(k_cache="padded"), CONTRACTS[0], Form("packed")),
            "K and V share a packed cache; it has no k_cache padded, v_cache dense",
        ),
        (Scene(Case(k_view="100,128,1"), CONTRACTS[0], Form()), "k_view 100,128,1 puts elements of K on each other"),
        (Scene(Case(v_view="0,0,1"), CONTRACTS[0], Form()), "v_view 0,0,1 puts elements of V on each other"),
    ],
)  # fmt: skip
def test_what_cannot_be_laid_out_is_said_in_a_sentence(scene: Scene, sentence: str) -> None:
    """The case is then unsupported, with this reason."""
    with pytest.raises(Unplaceable) as caught:
        scene.place()
    assert str(caught.value) == sentence


@given(st.tuples(*[st.integers(0, 40)] * 3), st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)))
def test_explicit_strides_are_placed_unless_elements_meet(
    strides: tuple[int, int, int], sizes: tuple[int, int, int]
) -> None:
    """Strides that interleave without meeting are fine; a token stride of 0 is one row for every token."""
    tokens, heads, dim = sizes
    token, head, inner = strides
    case = Case(k_view=f"{token},{head},{inner}+3", tokens=tokens, heads=heads, head_dim=dim)
    rows = 1 if token == 0 else tokens
    indices = np.indices((rows, heads, dim)).reshape(3, -1)
    offsets = (indices * np.array(strides)[:, None]).sum(axis=0)
    meets = len(np.unique(offsets)) < len(offsets)
    scene = Scene(case, CONTRACTS[0], Form())
    if meets:
        with pytest.raises(Unplaceable, match="on each other"):
            scene.place()
    else:
        assert scene.place().get("k").strides == strides
