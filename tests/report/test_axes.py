"""Axes as a report shows them."""

from __future__ import annotations

import msgspec

from kvcheck.report.axes import changed, complete, in_words, size
from kvcheck.schema import Case

from .samples import PASS, SEED


def test_defaults_are_filled_in() -> None:
    """Every axis of a case has a value; V's head_dim follows K's."""
    made = complete(msgspec.structs.replace(PASS, axes={"head_dim": 96, "k_view": "qkv"}))
    assert made["k_view"] == "qkv"
    assert made["v_view"] == "dense"
    assert made["tokens"] == 8
    assert (made["head_dim"], made["head_dim_v"]) == (96, 96)
    assert made["form"] == made["page"] == "default"
    assert set(made) == set(Case.__struct_fields__)
    assert complete(msgspec.structs.replace(PASS, axes={"head_dim_v": 64}))["head_dim_v"] == 64


def test_only_what_differs_from_a_default_is_changed() -> None:
    """In the order of the axes; an axis of a later version comes last; a head_dim_v equal to head_dim is no change."""
    axes: dict[str, str | int] = {"new": 3, "tokens": 9, "heads": 3, "k_view": "qkv", "head_dim": 96, "head_dim_v": 96}
    case = msgspec.structs.replace(PASS, axes=axes)
    assert list(changed(case).items()) == [("k_view", "qkv"), ("tokens", 9), ("head_dim", 96), ("new", 3)]
    assert changed(msgspec.structs.replace(PASS, axes={"head_dim_v": 64})) == {"head_dim_v": 64}
    assert in_words(changed(case)) == "k_view=qkv tokens=9 head_dim=96 new=3"
    assert in_words(changed(PASS)) == "every axis at its default"


def test_size_counts_the_elements_of_k() -> None:
    """Tokens times heads times head_dim."""
    assert size(SEED) == 8 * 3 * 128
    assert size(msgspec.structs.replace(PASS, axes={"tokens": 2, "heads": 5, "head_dim": 64})) == 640
