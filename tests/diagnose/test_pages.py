"""Rows at other places of their pages, or in other slots: rules of pages, each with its numbers, and what is none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import msgspec
import numpy as np
import pytest
from judge.emulate import Memory, emulate

from kvcheck.contract import Form
from kvcheck.diagnose import diagnose
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.part import Part
from kvcheck.diagnose.recovered import _rules
from kvcheck.judge import judge
from kvcheck.schema import Case, Placed

from .faulty import Goes, Lies, Store, emitted, explained, said, to_slot

PAGES = Form("pages", page=8)
EDGES = Case(heads=3, head_dim=64, tokens=5, slots="page_edges", v_cache="padded")

CROWDED = msgspec.structs.replace(EDGES, tokens=8)


def in_page(row: int, page: int) -> int:
    """A row's remainder of one less than a page has."""
    return row % (page - 1)


@pytest.mark.parametrize(
    ("goes", "case", "words"),
    [
        (lambda slot, page: (slot // page, slot % page % (page - 1)), EDGES, "at the edges of pages of 8 rows alone"),
        # All rows that move go where others are due: what stands there in full is what was stored last.
        (lambda slot, page: (slot // page, slot % page % (page - 1)), CROWDED, "(slot % page) % 7 of their pages"),
        (lambda slot, page: (slot // page, slot % (page - 1)), EDGES, "written at row slot % 7 of their pages"),
    ],
)
def test_rows_counted_to_one_less_are_named(goes: Goes, case: Case, words: str) -> None:
    """Rows that lie where others are due, stored after them, count: every lost or stray byte is explained."""
    found = said(emitted(Store(code_slot=goes, scale_slot=goes), case, PAGES))
    assert [(each.fault, each.tensor) for each in found[:2]] == [("page-boundary", "k"), ("page-boundary", "v")]
    assert all(words in each.says for each in found[:2])
    assert sum(each.others for each in found) == found[0].of_others


@pytest.mark.parametrize(("heads", "rows"), [(3, "3 rows"), (1, "1 row")])
def test_pages_of_as_many_rows_as_heads_are_named(heads: int, rows: str) -> None:
    """A page's number and row taken by the count of heads."""

    def goes(slot: int, page: int) -> tuple[int, int]:
        del page
        return divmod(slot, heads)

    case = Case(heads=heads, head_dim=64, tokens=4, slots="ascending")
    found = said(emitted(Store(code_slot=goes, scale_slot=goes), case, PAGES))
    assert found[0].fault == "cache-layout"
    assert f"written as in pages of {rows}; declared 8" in found[0].says


class OneBehindTheOther:
    """A store that counts slots from the first token's on."""

    def __call__(self, memory: Memory) -> None:
        """Store every token."""
        slots = memory.slots.tolist()
        number = {slot: token for token, slot in enumerate(slots)}

        def goes(slot: int, page: int) -> tuple[int, int]:
            place: tuple[int, int] = divmod(slots[0] + number[slot], page)
            return place

        Store(code_slot=goes, scale_slot=goes)(memory)


@pytest.mark.parametrize("tokens", [3, 5])
def test_slots_counted_from_the_first_are_no_page_boundary(tokens: int) -> None:
    """Of slots 7, 8 and 15 only the last row moves, at the edge of its page, to where the count leads."""
    found = said(emitted(OneBehindTheOther(), msgspec.structs.replace(EDGES, tokens=tokens), PAGES))
    assert (found[0].fault, found[1].fault) == ("cache-layout", "cache-layout")
    assert "15 to 9" in found[0].says
    assert "one behind the other from slot 7 on, that of the first token" in found[0].says


def test_one_row_that_moves_is_at_an_edge_only_beside_others() -> None:
    """Of two tokens one stands in the other's slot, the row before a page: so it does where slots are taken late."""

    def kernel(memory: Memory) -> None:
        slots = memory.slots.tolist()
        late, number = [slots[0], *slots[:-1]], {slot: token for token, slot in enumerate(slots)}

        def goes(slot: int, page: int) -> tuple[int, int]:
            place: tuple[int, int] = divmod(late[number[slot]], page)
            return place

        Store(code_slot=goes, scale_slot=goes)(memory)

    found = said(emitted(kernel, msgspec.structs.replace(EDGES, tokens=2), PAGES))
    assert "page-boundary" not in {each.fault for each in found}


@pytest.mark.parametrize(
    ("slots", "moved", "fault"),
    [([7, 15], [0, 1], "cache-layout"), ([7, 15, 16], [0, 1], "page-boundary"), ([7], [0], "cache-layout")],
)
def test_rows_of_one_edge_that_are_all_there_are_tell_no_edge(slots: list[int], moved: list[int], fault: str) -> None:
    """Rows that are the last of their pages stand a slot further on: whether others would, others must say."""
    due = np.array(slots, np.int64)
    bad = np.isin(np.arange(len(due)), moved)[:, None]
    rows = SimpleNamespace(slots=due, tokens=np.arange(len(due)))
    part = SimpleNamespace(side=SimpleNamespace(rows=rows), placed=SimpleNamespace(dims=(4, 8, 3, 64)), bad=bad)
    tokens = np.array(moved, np.int64)
    found, *_ = _rules(cast("Part", part), tokens, due[tokens] + 1)
    assert found[0] == fault


def kept(rows: set[int]) -> Goes:
    """A store of some rows of each page alone."""
    return lambda slot, page: to_slot(slot, page) if slot % page in rows else None


@pytest.mark.parametrize(
    ("rows", "words"),
    [(set(range(7)), "are the last of a page of 8 are never stored: those of slots 7, 15, 23"),
     (set(range(1, 8)), "are the first of a page of 8 are never stored: those of slots 8, 16")],
)  # fmt: skip
def test_rows_lost_at_an_edge_are_told_by_it(rows: set[int], words: str) -> None:
    """They come before the tokens that they are, which are named as alike where they explain as much."""
    emission = emitted(Store(code_slot=kept(rows), scale_slot=kept(rows)), EDGES, PAGES)
    first = diagnose(emission, judge(emission))[0]
    assert first.fault == "page-boundary"
    assert words in first.says
    assert first.evidence["alike"] == "token-lost"


@pytest.mark.parametrize(
    ("rows", "tokens"),
    [
        (set(range(7)), 2),  # one row alone is lost
        ({0}, 5),  # all rows but those at one edge: slots 8 and 16 stay, and no edge tells 7, 15 and 23 from others
        (set(), 5),  # all rows
    ],
)
def test_other_rows_are_lost_tokens(rows: set[int], tokens: int) -> None:
    """What the edges of pages do not tell is said of tokens; where they tell as much as these, of both."""
    case = msgspec.structs.replace(EDGES, tokens=tokens)
    found = said(emitted(Store(code_slot=kept(rows), scale_slot=kept(rows)), case, PAGES))
    edges = [each for each in found if each.fault == "page-boundary"]
    assert bool(edges) == (rows == {0})
    assert any(each.fault == "token-lost" for each in found)


def in_turns(step: int) -> Lies:
    """K and V of a packed page in turns: element by element, or heads as far apart as both."""

    def lies(memory: Memory, placed: Placed) -> Placed:
        first = min(memory.placement.get(f"{tensor}_codes").offset for tensor in ("k", "v"))
        page, row, head, inner = placed.strides
        strides = (page, row, head, 2) if step == 1 else (page, row, 2 * step, inner)
        offset = first + step * placed.name.startswith("v")
        return msgspec.structs.replace(placed, strides=strides, offset=offset)

    return lies


@pytest.mark.parametrize(
    ("form", "step", "words"),
    [
        (Form("packed", page=4), 1, "written element by element in turns with"),
        (Form("fused"), 64, "written head by head in turns with"),
    ],
)
def test_k_and_v_in_turns_are_named(form: Form, step: int, words: str) -> None:
    """Every lost or stray byte of the codes is explained by it."""
    emission = emitted(Store(codes=in_turns(step)), Case(heads=3, head_dim=64, tokens=4), form)
    found = said(emission)
    assert [(each.fault, each.tensor) for each in found] == [("cache-layout", "k"), ("cache-layout", "v")]
    assert all(words in each.says for each in found)
    assert sum(explained(each) for each in found) > 0


def test_rows_at_other_places_of_right_pages_pass_where_they_are_the_same() -> None:
    """Rows below the last but one are where they are due whatever they are counted to."""
    store = Store(code_slot=lambda slot, page: (slot // page, in_page(slot % page, page)))
    assert judge(emulate(store, Case(heads=3, head_dim=64, tokens=3, slots="ascending"), form=PAGES)).outcome == "pass"


@pytest.mark.parametrize(("rows", "said"), [(4, "row % 4 of their pages of 8"), (3, "row % 3 of their pages of 8")])
def test_rows_that_wrap_within_their_page_are_no_page_boundary(rows: int, said: str) -> None:
    """Of slots 7, 8 and 15 those at the edge move alone, but by more than a row or a page."""

    def goes(slot: int, page: int) -> tuple[int, int]:
        return slot // page, slot % page % rows

    case = msgspec.structs.replace(EDGES, tokens=3)
    found = said_of(Store(code_slot=goes, scale_slot=goes), case)
    assert [(each.fault, each.tensor) for each in found[:2]] == [("cache-layout", "k"), ("cache-layout", "v")]
    assert all(said in each.says for each in found[:2])


def test_rows_at_an_edge_that_move_by_nothing_known_have_no_rule() -> None:
    """Slots 7 and 15 go five rows back, where no remainder, row or page leads: their slots are all that is said."""

    def goes(slot: int, page: int) -> tuple[int, int]:
        return slot // page, slot % page - 5 * (slot % page == page - 1)

    found = said_of(Store(code_slot=goes, scale_slot=goes), msgspec.structs.replace(EDGES, tokens=3))
    assert found[0].fault == "cache-layout"
    assert "7 to 2, 15 to 10, each -5 from its own" in found[0].says


def test_rows_that_are_all_alike_go_where_the_others_went() -> None:
    """K repeats one row: what is written of it fits many maps, and V's, which tells one, is said of both."""

    def goes(slot: int, page: int) -> tuple[int, int]:
        return slot // page, page - 1 - slot % page

    case = Case(heads=1, head_dim=64, tokens=8, slots="permuted", k_view="expanded")
    found = said_of(Store(code_slot=goes, scale_slot=goes), case)
    assert {each.tensor for each in found} == {"k", "v"}
    assert len({tuple(as_list(each.evidence["slots_used"])) for each in found if each.codes is not None}) == 1


def as_list(value: object) -> list[int]:
    """A list of slots."""
    assert isinstance(value, list)
    return value


def said_of(kernel: Store, case: Case) -> list[Explanation]:
    """What the faults of writes say of it in pages of eight."""
    return said(emitted(kernel, case, PAGES))
