"""Right scales that are kept in another order within their rows: recovered from the bytes where these tell one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from judge.emulate import COMPUTED, amax_scale, emulate

from kvcheck.diagnose import diagnose
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.groups import near
from kvcheck.diagnose.scale_kept import kept_in_another_order
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis

from .test_scales import Floats, Rule, kernel


def kept(order: list[int], times: float = 1.0) -> Rule:
    """Codes of the right scales, which are kept in another order; the first of each row is so many times itself."""

    def rule(x: Floats) -> tuple[Floats, Floats]:
        scale = amax_scale(x)
        wrong = scale[:, order]
        wrong[:, 0] *= np.float32(times)
        return wrong, np.asarray(x / scale[:, :, None], np.float32)

    return rule


def named(rule: Rule, tokens: int = 8) -> tuple[Diagnosis, ...]:
    """What is named where V's scales are so."""
    emission = emulate(kernel(rule, "v"), Case(tokens=tokens, heads=5, head_dim=64, dtype="fp32"))
    return diagnose(emission, judge(emission))


@pytest.mark.parametrize(
    ("order", "fault", "moved", "says"),
    [
        ([2, 0, 1, 4, 3], "scale-layout", 5, "0 holds 2's, 1 holds 0's, 2 holds 1's, 3 holds 4's and so on"),
        ([4, 3, 2, 1, 0], "scale-address", 4, "of the heads in reverse"),
    ],
)
def test_the_order_of_all_rows_is_told(order: list[int], fault: str, moved: int, says: str) -> None:
    """Codes are right; what is explained are the scales of the heads that have another's, in eight rows."""
    (first,) = named(kept(order))
    assert (first.fault, first.tensor, first.explains, first.of) == (fault, "v", 8 * moved, 8 * moved)
    assert says in first.says


def test_one_row_tells_no_order() -> None:
    """Any five numbers may be five others in some order."""
    assert all(each.fault != "scale-layout" for each in named(kept([2, 0, 1, 4, 3]), tokens=1))


def test_a_scale_that_is_nobody_s_spoils_the_order() -> None:
    """Where one place of each row holds none of the row's scales, no order gives them."""
    emission = emulate(kernel(kept([2, 0, 1, 4, 3], 1.5), "v"), Case(tokens=8, heads=5, head_dim=64))
    facts = Facts(emission, COMPUTED, judge(emission))
    assert kept_in_another_order(facts, "v", facts.emitted("v")) is None


def beside(keep: Callable[[Floats], Floats], case: Case, tensors: str = "v") -> tuple[Diagnosis, ...]:
    """What is named where other numbers are kept beside codes of the right scales."""

    def rule(x: Floats) -> tuple[Floats, Floats]:
        scale = amax_scale(x)
        return keep(scale), np.asarray(x / scale[:, :, None], np.float32)

    emission = emulate(kernel(rule, tensors), case)
    return diagnose(emission, judge(emission))


def halves(scale: Floats) -> Floats:
    """The two halves of each number exchanged."""
    return np.ascontiguousarray(
        np.ascontiguousarray(scale).view(np.uint16)[..., ::1].reshape(*scale.shape, 2)[..., ::-1]
    ).view(np.float32)[..., 0]


WIDE = Case(tokens=6, heads=3, head_dim=64, dtype="fp32")
LATE = Case(tokens=6, heads=1, head_dim=64, dtype="fp32")


@pytest.mark.parametrize(
    ("keep", "case", "fault", "words"),
    [
        (lambda s: np.concatenate((np.ones_like(s[:, :1]), s[:, :-1]), axis=1), WIDE, "scale-address",
         "those of the head before, 1 for the first"),
        (lambda s: np.concatenate((np.ones_like(s[:1]), s[:-1])), WIDE, "scale-address",
         "those of the token before, 1 for the first"),
        (lambda s: np.full_like(s, 1), LATE, "scale-misapplied", "not kept: 1 stands for all of them"),
        (lambda s: s.view(np.uint32).byteswap().view(np.float32), WIDE, "scale-layout",
         "stored with their bytes the other way round"),
        (halves, WIDE, "scale-layout", "stored with their halves the other way round"),
        (lambda s: s * np.float32(2), WIDE, "scale-misapplied", "kept 2 times as large as due"),
    ],
)  # fmt: skip
def test_what_is_kept_for_a_scale_is_told(keep: Callable[[Floats], Floats], case: Case, fault: str, words: str) -> None:
    """Codes are right, and every wrong scale is explained."""
    (first,) = beside(keep, case)
    assert (first.fault, first.tensor, first.explains) == (fault, "v", first.of)
    assert words in first.says


ALIKE = Case(tokens=4, heads=1, head_dim=64, dtype="fp32", k_values="overflow*2^-3", v_values="overflow*2^-3")


@pytest.mark.parametrize(("times", "said"), [(2.0, True), (0.125, True), (3.0, False), (64.0, False)])
def test_scales_that_are_all_alike_tell_a_power_of_two_alone(times: float, said: bool) -> None:
    """One number is any other times something: it is said where an exponent may have been off by a little."""
    found = beside(lambda scale: np.asarray(scale * np.float32(times)), ALIKE, "kv")
    assert any("as large as due" in each.says for each in found) is said


def test_an_infinity_is_like_itself_alone() -> None:
    """No number is within a share of an infinity, and NaN is like nothing."""
    inf, nan = np.float32(np.inf), np.float32(np.nan)
    values = np.array([inf, -inf, 1, nan, 1, np.nextafter(np.float32(1), np.float32(2)), 1.1], np.float32)
    due = np.array([inf, inf, inf, nan, nan, 1, 1], np.float32)
    assert near(values, due, 4).tolist() == [True, False, False, False, False, True, False]
    assert near(np.array([np.inf], np.float32), np.ones(1, np.float32), 4).tolist() == [False]


def test_scales_of_infinite_rows_are_not_kept_otherwise() -> None:
    """Where one is due to be infinite, any number there would be its logarithm, or another row's."""
    case = Case(tokens=4, heads=2, head_dim=64, k_values="inf", v_values="inf")
    made = beside(lambda s: np.where(np.isinf(s), np.float32(3), s), case, "kv")
    said = " ".join(each.says for each in made)
    assert not any(words in said for words in ("logarithms", "the other way round", "of the token", "of the head"))


def test_two_scales_that_are_cut_are_no_constant() -> None:
    """All of K's are alike, and all of V's, and both are as much too small: a cut says that without a number."""

    def cut(scale: Floats) -> Floats:
        bits = np.ascontiguousarray(scale).view(np.uint32) & np.uint32(0xFFFF0000)
        return np.asarray(bits.view(np.float32), np.float32)

    made = beside(cut, Case(tokens=3, k_values="overflow*2^-3", v_values="overflow*2^-4"), "kv")
    assert [each.fault for each in made] == ["scale-rounded", "scale-rounded"]
