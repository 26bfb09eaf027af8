"""Numbers in place of the largest value, whole numbers on the way to a code, powers of two and logarithms of scales."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from judge.emulate import Floats, Kernel, Memory, amax_scale, e4m3, emulate

from kvcheck.contract import Contract, Form, Given
from kvcheck.diagnose import diagnose
from kvcheck.draw import scales
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis

STATIC = Contract(Given("tensor"))
FORM = Form("slots", scales="none")
LARGE = Case(tokens=4, head_dim=64, k_values="normal*100", v_values="normal*0.01", v_scale="2^-4")

#: From values and their scale, codes.
Encoder = Callable[[Floats, Floats], np.ndarray]


def given(encoder: Encoder, k_scale: str = "2^-3") -> Kernel:
    """A store by given scales."""

    def run(memory: Memory) -> None:
        for tensor, base in (("k", k_scale), ("v", "2^-4")):
            codes = encoder(memory.read(tensor), scales.given(base, "tensor", 1))
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])

    return run


def computed(encoder: Encoder, keep: Callable[[Floats], Floats] = lambda scale: scale) -> Kernel:
    """A store by computed scales, of which something is kept."""

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = amax_scale(x)
            codes, kept = encoder(x, scale[:, :, None]), keep(scale)
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])
                memory.write(f"{tensor}_scales", slot, kept[token])

    return run


def quotient(x: Floats, scale: Floats) -> Floats:
    """The scaled values."""
    return np.asarray(x / scale, np.float32)


def right(x: Floats, scale: Floats) -> np.ndarray:
    """The codes that are due."""
    return e4m3(quotient(x, scale))


def named(run: Kernel, case: Case, contract: Contract | None = STATIC) -> tuple[Diagnosis, ...]:
    """What is named of a store."""
    emission = emulate(run, case) if contract is None else emulate(run, case, contract, FORM)
    return diagnose(emission, judge(emission))


@pytest.mark.parametrize(
    ("positive", "negative", "words"),
    [
        (0.0, 0.0, "0 for values from the largest on"),
        (448.0, 448.0, "448 for negative values from the largest on"),
        (2.0, -448.0, "2 for positive values from the largest on"),
        (2.0, 3.0, "2 for positive values from the largest on, 3 for negative values from the largest on"),
    ],
)
def test_a_number_for_what_is_beyond_is_recovered(positive: float, negative: float, words: str) -> None:
    """K's values are beyond 448 in part: each sign's has a number of its own."""

    def encoder(x: Floats, scale: Floats) -> np.ndarray:
        q = quotient(x, scale)
        return e4m3(np.where(q > 448, np.float32(positive), np.where(q < -448, np.float32(negative), q)))

    (first, *_) = named(given(encoder), LARGE)
    assert (first.fault, first.tensor, first.explains) == ("overflow-to-nan", "k", first.of)
    assert words in first.says


@pytest.mark.parametrize("limit", [100.0, 447.0])
def test_what_the_format_holds_is_not_beyond(limit: float) -> None:
    """Values are zeros from 100 on, which is no limit of the format; from 447 on they are, rounded."""

    def encoder(x: Floats, scale: Floats) -> np.ndarray:
        q = quotient(x, scale)
        return e4m3(np.where(np.abs(q) > limit, np.float32(0), q))

    faults = {each.fault for each in named(given(encoder), LARGE)}
    assert ("overflow-to-nan" in faults) == (limit > 440)


def test_where_all_is_beyond_nothing_says_that_there_is_a_limit() -> None:
    """A number for every value is a number for those beyond some limit as well, wherever that is."""

    def encoder(x: Floats, scale: Floats) -> np.ndarray:
        q = quotient(x, scale)
        return e4m3(np.where(q > 0, np.float32(2), np.float32(3)))

    beyond = Case(tokens=4, k_values="overflow*2^-3", v_values="overflow*2^-3", k_scale="2^-9", v_scale="2^-9")
    assert all(each.fault != "overflow-to-nan" for each in named(given(encoder), beyond))


def test_unlike_numbers_for_what_is_beyond_are_none() -> None:
    """Values beyond are halved until they are no more: no number stands for them."""

    def encoder(x: Floats, scale: Floats) -> np.ndarray:
        q = quotient(x, scale)
        return e4m3(np.where(np.abs(q) > 448, q / np.float32(16), q))

    assert all(each.fault != "overflow-to-nan" for each in named(given(encoder), LARGE))


@pytest.mark.parametrize(("cut", "adds"), [(False, False), (True, False), (False, True)])
def test_whole_numbers_on_the_way_are_named(cut: bool, adds: bool) -> None:
    """Rounded to nearest or cut off, and zeros with their sign or without."""

    def encoder(x: Floats, scale: Floats) -> np.ndarray:
        q = quotient(x, scale)
        whole = np.trunc(q) if cut else np.rint(q)
        return e4m3(np.asarray(whole + np.float32(0) if adds else whole, np.float32))

    first = named(computed(encoder), Case(tokens=3, head_dim=64, heads=2), None)[0]
    assert (first.fault, first.explains) == ("rounding-mode", first.of)
    assert f"values {'cut off' if cut else 'rounded'} to whole numbers before" in first.says


@pytest.mark.parametrize(("way", "power"), [("below", 2.0**-7), ("above", 2.0**-6)])
def test_a_power_of_two_for_a_given_scale_is_named(way: str, power: float) -> None:
    """K's scale is 0.0123; V's is a power of two, and its codes are right."""

    def encoder(x: Floats, scale: Floats) -> np.ndarray:
        mantissa, _ = np.frexp(scale)
        return right(x, scale if mantissa[0] == np.float32(0.5) else np.full(1, power, np.float32))

    case = Case(tokens=3, head_dim=64, heads=2, k_scale="0.0123", v_scale="2^-4")
    (first,) = named(given(encoder, "0.0123"), case)
    assert (first.fault, first.tensor, first.explains) == ("scale-rounded", "k", first.of)
    assert f"the power of two {way} the scale" in first.says


@pytest.mark.parametrize(("log", "words"), [(np.log2, "to base 2"), (np.log, "to base e")])
def test_logarithms_kept_are_named(log: Callable[[Floats], Floats], words: str) -> None:
    """Codes are right; the scales beside them are not numbers to multiply with."""
    first = named(computed(right, log), Case(tokens=3, head_dim=64, heads=2), None)[0]
    assert (first.fault, first.explains) == ("scale-misapplied", first.of)
    assert f"logarithms {words}" in first.says
