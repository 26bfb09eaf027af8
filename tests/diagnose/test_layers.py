"""Rows in another layer's cache: named with both layers' numbers, and shown wherever there is another layer."""

from __future__ import annotations

import msgspec
import pytest
from judge.emulate import Memory, emulate, store

from kvcheck.contract import Form
from kvcheck.judge import judge
from kvcheck.schema import ITEMSIZE, Case, Placed

from .faulty import Lies, Store, emitted, said, seen

PAGES = Form("pages", page=4)
FORMS = [Form(), PAGES, Form("heads_pages", page=4), Form("packed", page=4), Form("fused"),
         Form("pages", page=4, scales="inline", inline_pad=4)]  # fmt: skip


def layers_on(count: int) -> Lies:
    """The tensor of a layer so many behind its own: all pages of one further."""

    def lies(memory: Memory, placed: Placed) -> Placed:  # noqa: ARG001 - one signature for all
        size = placed.dims[0] * placed.strides[0] * ITEMSIZE[placed.dtype]
        return msgspec.structs.replace(placed, offset=placed.offset + count * size)

    return lies


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.kind}-{form.scales}")
@pytest.mark.parametrize("slots", ["ascending", "permuted", "duplicates"])
@pytest.mark.parametrize(
    ("count", "layers", "words"),
    [
        (-1, 2, "written into the cache of layer 0; that of layer 1 was given"),
        (-2, 4, "written into the cache of layer 0; that of layer 2 was given"),
        (1, 3, "written into the cache of layer 2; that of layer 1 was given"),
        (1, 2, "written into the cache that a layer behind the last would have; that of layer 1 was given"),
    ],
)
def test_rows_in_another_layer_are_named_with_both(form: Form, slots: str, count: int, layers: int, words: str) -> None:
    """In every form, codes and scales of both tensors, and nothing is left for another fault."""
    case = Case(tokens=5, head_dim=32, slots=slots, layers=layers)
    found = said(emitted(Store(codes=layers_on(count), scales=layers_on(count)), case, form))
    assert {each.fault for each in found} == {"layer-remap"}
    assert {f"{each.tensor.upper()}'s {kind} are {words}" for each in found for kind in ("codes", "scales")} == {
        each.says for each in found
    }
    if slots != "duplicates":  # a byte that two tokens would have stored is lost by both
        assert sum(each.others for each in found) == found[0].of_others
    assert (found[0].evidence["layer_used"], found[0].evidence["layer_given"]) == (layers // 2 + count, layers // 2)


def test_scales_alone_may_go_to_another_layer() -> None:
    """And codes alone: the sentence says which."""
    case = Case(tokens=5, head_dim=32, layers=2)
    assert {each.says for each in said(emitted(Store(scales=layers_on(-1), sides="v"), case))} == {
        "V's scales are written into the cache of layer 0; that of layer 1 was given"
    }


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("tokens", [0, 3])
def test_observable_means_that_the_kernel_fails(layers: int, tokens: int) -> None:
    """A store into the first layer fails exactly where there is another and a row to store."""
    case = Case(tokens=tokens, head_dim=16, layers=layers)
    kernel = Store(codes=layers_on(-case.layer), scales=layers_on(-case.layer))
    fails = judge(emulate(kernel, case)).outcome != "pass"
    assert fails == ("layer-remap" in seen(emulate(store, case))) == (layers > 1 and tokens > 0)


def test_without_other_layers_none_is_spoken_of() -> None:
    """Rows that a whole cache's length away stand are in nobody's memory where there is one layer."""
    found = said(emitted(Store(codes=layers_on(-1), sides="v"), Case(tokens=5, head_dim=32)))
    assert found
    assert "layer-remap" not in {each.fault for each in found}
