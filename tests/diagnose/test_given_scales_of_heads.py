"""Codes by the given scales of other heads: by a rule that has a name, or in any order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from judge.emulate import Kernel, Memory, e4m3, emulate

from kvcheck.contract import Contract, Given
from kvcheck.diagnose import diagnose
from kvcheck.draw import scales
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis

Indices = npt.NDArray[np.int64]

CONTRACT = Contract(scale=Given("head"))


def by(order: list[int], times: float = 1) -> Kernel:
    """Return a kernel whose V is divided by so many times the scales of these heads."""

    def kernel(memory: Memory) -> None:
        for tensor, base in (("k", "2^-3"), ("v", "2^-4")):
            scale = scales.given(base, "head", len(order))
            if tensor == "v":
                scale = scale[order] * np.float32(times)
            codes = e4m3(memory.read(tensor) / scale[:, None])
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])

    return kernel


def found(order: list[int], times: float = 1) -> Diagnosis:
    """Return what is named first where V's heads have the scales of these."""
    emission = emulate(by(order, times), Case(heads=len(order), k_scale="2^-3", v_scale="2^-4"), CONTRACT)
    return diagnose(emission, judge(emission))[0]


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ([1, 0, 0], "head 0 has 1's, head 1 has 0's, head 2 has 0's"),
        ([0, 1, 3, 2], "head 2 has 3's, head 3 has 2's"),
        ([2, 3, 0, 1, 2, 2], "head 0 has 2's, head 1 has 3's, head 2 has 0's, head 3 has 1's and so on"),
    ],
)
def test_any_order_is_recovered(order: list[int], says: str) -> None:
    """Every wrong code is explained, though K's scales, twice V's, would explain most of them."""
    first = found(order)
    assert (first.fault, first.tensor, first.explains) == ("scale-address", "v", first.of)
    assert says in first.says
    named = first.evidence["order"]
    assert isinstance(named, list)
    scale = scales.given("2^-4", "head", len(order))
    np.testing.assert_array_equal(scale[named], scale[order])


@pytest.mark.parametrize(
    ("order", "says"),
    [([1, 2, 3, 0], "the scale of the head behind"), ([0, 1, 2, 3, 0, 1], "the scale of head h % 4")],
)
def test_a_rule_that_has_a_name_comes_first(order: list[int], says: str) -> None:
    """The next head's is said so, and that of a head's remainder, and has no order."""
    first = found(order)
    assert first.fault == "scale-address"
    assert says in first.says
    assert "order" not in first.evidence


@pytest.mark.parametrize("times", [0.5, 2])
def test_scales_that_are_no_head_s_have_no_order(times: float) -> None:
    """Twice each scale is another head's for some heads, and for one of them nobody's."""
    assert found([0, 1, 2, 3], times).fault != "scale-address"


def by_map(which: Callable[[int, int, int], Indices], heads: int = 3) -> tuple[Diagnosis, ...]:
    """What is named where V's element (token, head, dim) is divided by the scale of head `which`, `[heads, dim]`."""

    def kernel(memory: Memory) -> None:
        for tensor, base in (("k", "2^-3"), ("v", "2^-4")):
            scale, x = scales.given(base, "head", heads), memory.read(tensor)
            for token, slot in enumerate(memory.slots.tolist()):
                own = np.broadcast_to(np.arange(heads)[:, None], x.shape[1:])
                used = own if tensor == "k" else which(token, heads, x.shape[2])
                memory.write(f"{tensor}_codes", slot, e4m3(x[token] / scale[used]))

    emission = emulate(kernel, Case(heads=heads, head_dim=80, k_scale="2^-3", v_scale="2^-4"), CONTRACT)
    return diagnose(emission, judge(emission))


def lanes(heads: int, dim: int) -> Indices:
    """The number of each element in its row, `[heads, dim]`."""
    return np.arange(heads * dim).reshape(heads, dim)


def rows(which: Indices, dim: int) -> Indices:
    """One number a head for all its elements."""
    return np.broadcast_to(which[:, None], (len(which), dim))


@pytest.mark.parametrize(
    ("which", "says"),
    [
        (lambda t, h, d: rows(np.full(h, t % h), d), "the scale of head t % heads for token t"),
        (lambda t, h, d: rows(np.full(h, min(t, h - 1)), d), "head t for token t, the last one's beyond them"),
        (lambda t, h, d: rows((t + np.arange(h)) % h, d), "the scale of head (t + h) % heads for token t, head h"),
        (lambda t, h, d: rows((t * h + np.arange(h)) // 8, d), "the scale of head r // tokens for row r"),
        (lambda t, h, d: rows((np.arange(h) + t * t // 2) % h, d), "token by token: token 2, head 0 has 2's and so on"),
        (lambda t, h, d: np.minimum(lanes(h, d) // 128, h - 1), "where head_dim is 128, not 80"),  # noqa: ARG005
        (lambda t, h, d: lanes(h, d) % h, "the scale of head e % heads for the row's element e"),  # noqa: ARG005
        (lambda t, h, d: lanes(h, d) % d % h, "the scale of head d % heads for the head's element d"),  # noqa: ARG005
        (lambda t, h, d: lanes(h, d) % d * h // d, "the scale of head d * heads // head_dim for"),  # noqa: ARG005
    ],
)
def test_a_map_of_tokens_or_elements_is_named(which: Callable[[int, int, int], Indices], says: str) -> None:
    """Each row, or element, has some head's scale: every wrong code is explained, and K has none."""
    (first,) = by_map(which)
    assert (first.fault, first.tensor, first.explains) == ("scale-address", "v", first.of)
    assert says in first.says


def test_a_map_needs_all_its_rows() -> None:
    """Where one row of a token has a scale of its elements' own, no map of rows gives it."""

    def which(token: int, heads: int, dim: int) -> Indices:
        return lanes(heads, dim) * 7 % heads if token == 3 else rows(np.full(heads, token % heads), dim)

    assert all(each.fault != "scale-address" for each in by_map(which))
