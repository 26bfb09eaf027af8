"""Passing cases of the same input, held against each other by their digests."""

from __future__ import annotations

import msgspec
import pytest

from kvcheck.report import sentences
from kvcheck.report.equal_inputs import equal_inputs
from kvcheck.schema import CaseResult, CodesVerdict, Digest

from .samples import PASS, SEED, report


def case(identifier: str, digest: str = "1", like: CaseResult = PASS, **axes: str | int) -> CaseResult:
    """A result with these axes, whose codes have this digest."""
    return msgspec.structs.replace(like, id=identifier, axes=axes, digest=Digest(digest, "0"))


@pytest.mark.parametrize(
    "axes",
    [{"k_view": "qkv"}, {"layout": "pooled"}, {"order": "vk"}, {"align": 4}, {"v_cache": "padded"}, {"cross": "k"}],
)
def test_views_and_layouts_do_not_change_the_input(axes: dict[str, str | int]) -> None:
    """Cases that differ in where tensors lie are held against each other."""
    assert equal_inputs(report(case("a"), case("b", "1", PASS, **axes))).cases == 2
    assert equal_inputs(report(case("a"), case("b", "2", PASS, **axes))).unlike == (("a", "b"),)


@pytest.mark.parametrize(
    "axes",
    [
        {"k_values": "grid"},
        {"v_scale": "1"},
        {"tokens": 9},
        {"heads": 1},
        {"head_dim_v": 64},
        {"dtype": "fp16"},
        {"slots": "last"},
        {"seed": 1},
        {"k_view": "expanded"},
        {"v_view": "0,128,1"},
    ],
)
def test_other_values_shapes_and_repeated_rows_are_other_inputs(axes: dict[str, str | int]) -> None:
    """Cases that differ so are never held against each other."""
    assert equal_inputs(report(case("a"), case("b", "2", PASS, **axes))).cases == 0


def test_only_passes_that_compared_something_are_asked() -> None:
    """A failing case, one without a digest, and one in which no code was due say nothing of others."""
    nothing = msgspec.structs.replace(case("c", "3"), codes=CodesVerdict())
    blank = msgspec.structs.replace(case("d"), digest=None)
    assert equal_inputs(report(case("a"), case("b", "2", like=SEED), nothing, blank)).cases == 0


def test_the_sentence_says_whether_all_left_the_same_bytes() -> None:
    """The first pair of each input that did not; nothing where no case shares an input."""
    text = "3 passing cases share their inputs with another, in other views or layouts"
    both = [case("a"), case("b", order="vk")]
    assert f"{text}: all left the same bytes." in sentences.notes(report(*both, case("c", k_view="qkv")))
    assert f"{text}; 1 input gave unlike bytes, all of them right; first: a, c." in sentences.notes(
        report(*both, case("c", "2", k_view="qkv"))
    )
    assert not any("share their inputs" in note for note in sentences.notes(report(case("a"))))
