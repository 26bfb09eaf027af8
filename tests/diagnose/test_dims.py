"""Elements in another order within each head, and rows in the slot beside their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from judge.emulate import Memory, amax_scale, e4m3, emulate, store

from kvcheck.contract import Computed, Contract, Form
from kvcheck.diagnose import diagnose
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis

Order = Callable[[int], npt.NDArray[np.int64]]


def ordered(order: Order, case: Case | None = None) -> tuple[Diagnosis, ...]:
    """What is named of a store that puts element `order[d]` of each head at d."""

    def run(memory: Memory) -> None:
        store(memory)
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            codes = e4m3(x / amax_scale(x)[:, :, None])[:, :, order(x.shape[2])]
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])

    emission = emulate(run, case or Case())
    return diagnose(emission, judge(emission))


def exchanged(dim: int) -> npt.NDArray[np.int64]:
    """Elements 5 and 9."""
    order = np.arange(dim)
    order[[5, 9]] = [9, 5]
    return order


def test_a_map_that_takes_an_element_twice_is_no_order() -> None:
    """Element 9 stands at 5 too, and 5 nowhere; among codes so much alike that hardly any row shows which it lacks."""
    case = Case(tokens=8, dtype="fp32", k_values="overflow*2^-4", v_values="overflow*2^-4")
    found = ordered(lambda dim: np.where(np.arange(dim) == 5, 9, np.arange(dim)), case)
    assert {each.fault for each in found} == {"foreign-read"}
    assert all("cache-layout" not in each.says for each in found)


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (lambda dim: np.arange(dim).reshape(2, -1).T.ravel(), "as a matrix of 2 by 64 that is turned"),
        (lambda dim: np.arange(dim).reshape(-1, 2).T.ravel(), "as a matrix of 64 by 2 that is turned"),
        (lambda dim: np.roll(np.arange(dim), dim // 2), "the two halves exchanged"),
        (lambda dim: np.arange(dim).reshape(-1, 4)[:, ::-1].ravel(), "each 4 of them in reverse"),
        (lambda dim: np.arange(dim)[::-1], "in reverse"),
        (lambda dim: np.roll(np.arange(dim), 1), "one place on"),
        (lambda dim: np.random.default_rng(1).permutation(dim), "0 holds "),
        (exchanged, "5 holds 9, 9 holds 5 and so on"),
    ],
)
def test_an_order_is_named(order: Order, words: str) -> None:
    """By its name where it has one, else by its first places."""
    found = ordered(order)
    assert [each.fault for each in found] == ["cache-layout"] * 2
    assert all(words in each.says and each.explains == each.of > 0 for each in found), found[0].says
    assert found[0].evidence["order"] == order(128).tolist()


def test_an_order_that_differs_from_row_to_row_is_none() -> None:
    """Rows shuffled each for itself hold the right codes in no one order."""
    draw = np.random.default_rng(3)

    def run(memory: Memory) -> None:
        store(memory)
        for slot in memory.slots.tolist():
            memory.write("k_codes", slot, draw.permutation(memory.row("k_codes", slot)))

    emission = emulate(run, Case())
    assert "cache-layout" not in {each.fault for each in diagnose(emission, judge(emission))}


BLOCKS = Contract(scale=Computed("block:32"))
CLOSE = Contract(scale=Computed("block:32"), apply="divide_approx")


@pytest.mark.parametrize("contract", [BLOCKS, CLOSE])
@pytest.mark.parametrize(
    ("order", "rows", "words"),
    [
        (np.roll(np.arange(128), 32), 8, "32 places on"),
        (np.arange(128).reshape(2, 64).T.ravel(), 8, "as a matrix of 2 by 64 that is turned"),
        (np.roll(np.arange(128), 32), 0, ""),
    ],
)
def test_codes_may_leave_their_block_and_its_scale_stay(
    contract: Contract, order: npt.NDArray[np.int64], rows: int, words: str
) -> None:
    """Scales stand where they are due; the codes that they made stand elsewhere in their head, in some rows or none."""

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = np.asarray(np.abs(x).reshape(*x.shape[:2], -1, 32).max(axis=3) / np.float32(448), np.float32)
            codes = e4m3(np.asarray(x / np.repeat(scale, 32, axis=2), np.float32))
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token][:, order] if token < rows else codes[token])
                memory.write(f"{tensor}_scales", slot, scale[token])

    emission = emulate(run, Case(), contract)
    found = diagnose(emission, judge(emission))
    assert [each.fault for each in found] == (["cache-layout"] * 2 if words else [])
    assert all(words in each.says and each.explains == each.of for each in found)


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("values", ["normal", "midpoints"])
def test_rows_in_the_slot_beside_their_own_are_one_fault(step: int, values: str) -> None:
    """Codes and scales alike, even where all scales are equal and most rows look stored where they are due."""

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = amax_scale(x)
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot + step, e4m3(x / scale[:, :, None])[token])
                memory.write(f"{tensor}_scales", slot + step, scale[token])

    case = Case(tokens=3, dtype="fp32", k_values=values, v_values=values, slots="ascending")
    emission = emulate(run, case, form=Form("pages"))
    found = diagnose(emission, judge(emission))
    assert {each.fault for each in found} == {"cache-layout", "scale-address"}
    assert found[0].fault == "cache-layout"
    assert all(f"each {step:+d} from its own" in each.says for each in found), [each.says for each in found]
