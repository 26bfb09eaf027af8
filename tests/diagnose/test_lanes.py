"""Elements of a row that are taken from other places of it, by a map that takes some of them twice or not at all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from judge.emulate import Bytes, Floats, Kernel, Memory, amax_scale, e4m3, emulate, given_store, store

from kvcheck.contract import Computed, Contract, Given
from kvcheck.diagnose import diagnose, lanes
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis

Indices = npt.NDArray[np.int64]
#: The element that each place takes, -1 for zero.
Map = Callable[[int], Indices]
#: Four rows of V, in which 16 elements after the 32nd would be a tail.
CASE = Case(tokens=2, heads=2, head_dim=48)


def reads(taken: Map, scale: float | None = None) -> Kernel:
    """A store that takes V's elements so, with the scale of what it took, or a given one."""

    def run(memory: Memory) -> None:
        (store if scale is None else given_store(1.0, scale))(memory)
        x = memory.read("v")
        found = taken(x.shape[2])
        rows: Floats = np.where(found < 0, np.float32(0), x[:, :, np.maximum(found, 0)])
        scales = amax_scale(rows) if scale is None else np.full(rows.shape[:2], scale, np.float32)
        for token, slot in enumerate(memory.slots.tolist()):
            memory.write("v_codes", slot, e4m3(rows[token] / scales[token][:, None]))
            if scale is None:
                memory.write("v_scales", slot, scales[token])

    return run


def named(run: Kernel, case: Case, contract: Contract | None = None) -> list[Diagnosis]:
    """Emulate, judge, diagnose."""
    emission = emulate(run, case) if contract is None else emulate(run, case, contract)
    verdict = judge(emission)
    assert verdict.codes.v_wrong
    return list(diagnose(emission, verdict))


def repeated(end: int) -> Map:
    """From the first again, as often as it takes."""
    return lambda size: np.arange(size) % end


def moved(end: int, begin: int) -> Map:
    """From an earlier one on."""
    return lambda size: np.where(np.arange(size) < end, np.arange(size), np.arange(size) - end + begin)


def masked(end: int) -> Map:
    """Nothing beyond."""
    return lambda size: np.where(np.arange(size) < end, np.arange(size), -1)


@pytest.mark.parametrize("scale", [None, 0.0123])
@pytest.mark.parametrize(
    ("taken", "fault", "words"),
    [
        (repeated(10), "tail-mask", "up to element 10 of 48, then from the row's first again"),
        (moved(36, 20), "tail-mask", "up to element 36 of 48, then from element 20 on"),
        (masked(20), "tail-mask", "up to element 20 of 48, zero beyond"),
        (lambda size: np.arange(size) // 2, "foreign-read", "with each element 2 times"),
        (lambda size: np.arange(size) * 4 % size, "foreign-read", "with every element 4 on, round each row"),
        (lambda size: np.arange(size) // 8 * 8, "foreign-read",
         "with other elements of each row: 0 for 1, 0 for 2, 0 for 3, 0 for 4 and 38 more"),
        (lambda size: np.where(np.arange(size) % 12 == 1, -1, np.arange(size) // 8 * 8), "foreign-read",
         "with other elements of each row: none for 1, 0 for 2, 0 for 3, 0 for 4 and 38 more"),
    ],
)  # fmt: skip
def test_says_which_elements_are_taken(taken: Map, fault: str, words: str, scale: float | None) -> None:
    """By computed scales, which follow what was taken, and by a given one."""
    contract = None if scale is None else Contract(Given(), duplicate_slots="undefined")
    case = CASE if scale is None else Case(tokens=2, heads=2, head_dim=48, k_scale="1", v_scale=str(scale))
    made = named(reads(taken, scale), case, contract)
    assert [each.fault for each in made] == [fault]
    assert f"V is read {words}; explains" in made[0].says
    assert made[0].explains == made[0].of


def test_an_order_is_one_of_the_cache() -> None:
    """Each element is taken once: where it was read from, or stored to, cannot be told, and the other name is older."""
    made = named(reads(lambda size: np.arange(size)[::-1]), CASE)
    assert [each.fault for each in made] == ["cache-layout"]


def test_codes_moved_among_blocks_with_scales_of_their_own_are_not_of_what_was_read() -> None:
    """An element that another block's place holds has that block's scale: codes alone say nothing of a map."""

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = np.asarray(np.abs(x).reshape(*x.shape[:2], 3, 16).max(axis=3) / np.float32(448), np.float32)
            made = e4m3(np.asarray(x / np.repeat(scale, 16, axis=2), np.float32))
            made[:, :, 32:] = made[:, :, :16]
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, made[token])
                memory.write(f"{tensor}_scales", slot, scale[token])

    made = named(run, CASE, Contract(scale=Computed("block:16")))
    assert not {"tail-mask", "foreign-read"} & {each.fault for each in made}


def codes(*rows: list[int]) -> Bytes:
    """One head."""
    return np.array(rows, np.uint8)[:, None, :]


DUE = codes([1, 2, 3, 4, 5, 6, 7, 8], [9, 8, 7, 6, 5, 4, 3, 2], [1, 1, 2, 2, 3, 3, 4, 4])


def test_what_is_due_in_some_order_has_no_map() -> None:
    """None is needed, or it is an order."""
    assert lanes.columns(DUE, DUE) is None
    assert lanes.columns(DUE, DUE[:, :, ::-1]) is None


def test_what_is_of_no_element_has_no_map() -> None:
    """One code in one row is enough."""
    other = DUE.copy()
    other[1, 0, 3] = 77
    assert lanes.columns(DUE, other) is None


def test_few_places_of_few_rows_are_chance() -> None:
    """One place of three rows holds another element once in a hundred times; two of them, and more rows, do not."""
    other = DUE.copy()
    other[:, 0, 2] = DUE[:, 0, 5]
    found = lanes.columns(DUE, other)
    assert found is not None
    assert lanes.element(found) is None
    wide = np.concatenate([DUE + each for each in range(4)]).astype(np.uint8)
    other = wide.copy()
    other[:, 0, 2] = wide[:, 0, 5]
    found = lanes.columns(wide, other)
    assert found is not None
    made = lanes.element(found)
    assert made is not None
    assert made.how == "with other elements of each row: 5 for 2"
    assert made.evidence == {"elements": [0, 1, 5, 3, 4, 5, 6, 7]}


def test_the_first_element_may_be_another() -> None:
    """A tail begins behind some right element."""
    other = np.zeros_like(DUE)
    found = lanes.columns(DUE, other)
    assert found is not None
    assert lanes.tail(found) is None


def test_zeros_alone_are_no_reading() -> None:
    """Whoever stores zeros there afterwards leaves the same."""
    wide = np.concatenate([DUE + each for each in range(4)]).astype(np.uint8)
    other = wide.copy()
    other[:, 0, [1, 3, 5]] = 0
    found = lanes.columns(wide, other)
    assert found is not None
    assert (lanes.tail(found), lanes.element(found)) == (None, None)


def test_a_place_that_may_hold_its_own_element_does() -> None:
    """Elements 3 and 5 are alike; place 3 holds them, and place 2 what comes before 5: 3 holds its own even so."""
    wide = np.concatenate([DUE + each for each in range(4)]).astype(np.uint8)
    wide[:, 0, 5] = wide[:, 0, 3]
    other = wide.copy()
    other[:, 0, 2] = wide[:, 0, 4]
    found = lanes.columns(wide, other)
    assert found is not None
    made = lanes.element(found)
    assert made is not None
    assert made.evidence == {"elements": [0, 1, 4, 3, 4, 5, 6, 7]}
