"""Rows read from where no named fault reads: recovered by their signs, named by the map, whatever made their codes."""

from __future__ import annotations

import numpy as np
import pytest
from judge.emulate import Bytes, Floats, Indices, Memory, emulate

from diagnose.elsewhere import Offsets, reads
from kvcheck.contract import Contract
from kvcheck.diagnose import diagnose
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.origin import Map, Origin, affine
from kvcheck.diagnose.reading import own
from kvcheck.formats import bits
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis, Placed, Placement

PERMUTED = np.array([3, 0, 1, 2, 7, 5, 6, 4])


#: A kernel, a case, the fault and the sentence of V.
TABLE: dict[str, tuple[Offsets, Case, str, str]] = {
    "eight too many": (
        lambda _, p, t, h, d: t * (p.strides[0] + 8) + h * p.strides[1] + d * p.strides[2],
        Case(k_view="qkv"),
        "foreign-read",
        "with token pitch 392; declared 384",
    ),
    "two rows": (
        lambda _, p, t, h, d: t * (p.strides[0] + 8) + h * p.strides[1] + d * p.strides[2],
        Case(tokens=2, heads=1),
        "foreign-read",
        "with token pitch 136; declared 128",
    ),
    "one row": (
        lambda _, p, t, h, d: t * p.strides[0] + h * p.strides[1] + d * p.strides[2] + 3,
        Case(tokens=1),
        "offset-ignored",
        "from 3 elements behind its first one",
    ),
    "pitch in bytes": (
        lambda _, p, t, h, d: t * 2 * p.strides[0] + h * p.strides[1] + d * p.strides[2],
        Case(v_view="qkv", k_view="qkv"),
        "foreign-read",
        "with token pitch 2304; declared 1152",
    ),
    "head pitch and offset": (
        lambda _, p, t, h, d: t * p.strides[0] + h * (p.strides[1] + 4) + d * p.strides[2] + 3,
        Case(v_view="kv"),
        "foreign-read",
        "with head pitch 132; declared 128, from 3 elements behind its first one",
    ),
    "K's head pitch": (
        lambda pl, p, t, h, d: t * p.strides[0] + h * pl.get("k").strides[1] + d * p.strides[2],
        Case(k_view="head_padded", v_view="qkv"),
        "sibling-pitch",
        "with head pitch 144; declared 128 (the head pitch is K's)",
    ),
    "heads dense, offset": (
        lambda _, p, t, h, d: t * p.strides[0] + h * p.dims[2] + d * p.strides[2] + 5,
        Case(v_view="head_padded"),
        "dense-heads",
        "with head pitch 128; declared 144, from 5 elements behind its first one (a dense one, and K's)",
    ),
    "interleaved": (
        lambda _, p, t, h, d: t * p.strides[0] + h + d * p.dims[1],
        Case(heads=5),
        "foreign-read",
        "with head pitch 1, inner stride 5; declared 128, 1",
    ),
    "odd heads": (
        lambda _, p, t, h, d: t * p.strides[0] + (2 * h + 1) % p.dims[1] * p.strides[1] + d * p.strides[2],
        Case(heads=5),
        "head-mapping",
        "with heads [1, 3, 0, 2, 4] for heads 0 to 4",
    ),
    "tokens permuted": (
        lambda _, p, t, h, d: PERMUTED[t] * p.strides[0] + h * p.strides[1] + d * p.strides[2],
        Case(),
        "foreign-read",
        "with tokens [3, 0, 1, 2, 7, 5, 6, 4] for tokens 0 to 7",
    ),
    "rows permuted": (
        lambda _, p, t, h, d: (t * 3 + h) % 24 // 3 * p.strides[0] + (t * 7 + h) % 3 * p.strides[1] + d * p.strides[2],
        Case(),
        "foreign-read",
        "with its rows for one another: token 1, head 0 is token 1, head 1",
    ),
}


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_an_unknown_map_is_named_with_its_figures(name: str, dtype: str) -> None:
    """All wrong codes are explained by the one map."""
    kernel, case, fault, how = TABLE[name]
    case = Case(**{field: getattr(case, field) for field in case.__struct_fields__} | {"dtype": dtype})
    found = _diagnosed(kernel, case)
    assert [(each.fault, each.tensor, each.explains) for each in found] == [(fault, "v", found[0].of)]
    assert found[0].says.startswith(f"V is read {how}; explains ")


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (384, "K's first row ends"),
        (8 * 768 - 384, "K's rows end"),
        (8 * 384, "K's rows would end if they were dense"),
    ],
)
def test_a_begin_counted_from_the_sibling_is_no_shared_pitch(end: int, words: str) -> None:
    """V taken to begin at an end of K's, with K's strides: the begin is what is wrong, and which end is said."""

    def kernel(placement: Placement, own: Placed, token: Indices, head: Indices, dim: Indices) -> Indices:
        k = placement.get("k")
        return (k.offset - own.offset) // 2 + end + token * k.strides[0] + head * k.strides[1] + dim

    found = _diagnosed(kernel, Case(k_view="kv", v_view="head_padded"))
    assert [(each.fault, each.tensor, each.explains) for each in found] == [("offset-ignored", "v", found[0].of)]
    assert found[0].says.startswith("V is read with token pitch 768, head pitch 128; declared 432, 144, from ")
    assert f"(its begin is taken to be where {words}, with its strides)" in found[0].says


def test_k_strides_from_a_begin_that_is_no_end_are_a_shared_pitch() -> None:
    """Five elements behind V's own first one: the pitch is K's."""

    def kernel(placement: Placement, _own: Placed, token: Indices, head: Indices, dim: Indices) -> Indices:
        k = placement.get("k")
        return 5 + token * k.strides[0] + head * k.strides[1] + dim

    found = _diagnosed(kernel, Case(k_view="kv", v_view="head_padded"))
    assert [(each.fault, each.tensor) for each in found] == [("sibling-pitch", "v")]


def _diagnosed(kernel: Offsets, case: Case) -> tuple[Diagnosis, ...]:
    emission = emulate(reads(kernel, ("v",)), case)
    return diagnose(emission, judge(emission))


def _toward_zero(scaled: Floats) -> Bytes:
    return bits.encode(scaled, rounding="rtz")


@pytest.mark.parametrize(
    "name", ["eight too many", "pitch in bytes", "head pitch and offset", "odd heads", "heads dense, offset"]
)
def test_a_map_and_a_rounding_are_both_named(name: str) -> None:
    """The rows come from elsewhere and their codes are truncated: V's address first, its rounding beside it."""
    kernel, case, fault, how = TABLE[name]
    emission = emulate(reads(kernel, ("v",), _toward_zero), case)
    found = [each for each in diagnose(emission, judge(emission)) if each.tensor == "v"]
    assert [each.fault for each in found[:2]] == [fault, "rounding-mode"]
    assert found[0].says.startswith(f"V is read {how}; explains {found[0].of} of {found[0].of} wrong codes")


def test_short_and_sign_poor_rows_are_left_open() -> None:
    """Positive values have no signs to go by, and rows below 32 elements too few: nothing is claimed."""
    kernel = TABLE["eight too many"][0]
    for case in (Case(v_values="offset"), Case(head_dim=16)):
        assert "foreign-read" not in {each.fault for each in _diagnosed(kernel, case) if "pitch" in each.says}


@pytest.mark.parametrize(
    ("token", "away", "strides", "shift"),
    [(1, 8, (136, 128, 1), 0), (2, 8, (132, 128, 1), 0), (2, 7, (128, 128, 1), 7), (0, 8, (128, 128, 1), 8)],
)
def test_of_one_token_alone_the_pitch_is_the_plainer_account(
    token: int, away: int, strides: tuple[int, int, int], shift: int
) -> None:
    """One row, found `away` elements behind its own: a pitch where that is a whole one, else an offset."""
    emission = emulate(case=Case(tokens=3, heads=1))
    assert isinstance(emission.contract, Contract)
    source = own(Facts(emission, emission.contract, judge(emission)), "v")
    assert source is not None
    address = source.base + 2 * (128 * token + away)
    found = affine(source, Origin(1, np.array([token]), np.array([0]), np.array([address])))
    assert found == Map(source.base + 2 * shift, strides, 1)


def test_a_reading_that_right_rows_speak_against_says_so() -> None:
    """Heads 0 and 1 are read eight elements late: the rows of head 2 are evidence against an offset of all."""

    def kernel(memory: Memory) -> None:
        reads(lambda _, p, t, h, d: t * p.strides[0] + h * p.strides[1] + d + 8 * (h < 2), ("v",))(memory)

    emission = emulate(kernel, Case())
    (found,) = diagnose(emission, judge(emission))
    assert found.evidence["rows_against"] == 8
    assert (found.fault, found.explains) == ("offset-ignored", found.of)
