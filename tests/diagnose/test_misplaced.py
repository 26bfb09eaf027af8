"""Faults of destinations: named where right bytes stand at wrong places, with the numbers of the map that was used."""

from __future__ import annotations

import pytest
from judge.emulate import Memory, emulate, store

from kvcheck.contract import Form
from kvcheck.diagnose import diagnose
from kvcheck.judge import judge
from kvcheck.schema import Case, Emission, Placed

from .faulty import Store, emitted, explained, said, seen, strides, to_slot

PAGES = Form("pages", page=4)
HEADS = Form("heads_pages", page=4)
#: Three heads of 64, and caches with unlike padding.
CASE = Case(heads=3, head_dim=64, k_cache="head_padded", v_cache="padded")


def siblings(memory: Memory, placed: Placed) -> Placed:
    """The sibling's strides."""
    other = memory.placement.get({"k": "v", "v": "k"}[placed.name[0]] + placed.name[1:])
    return Placed(placed.name, placed.allocation, placed.offset, placed.dtype, placed.dims, other.strides)


def slot_plus_one(slot: int, page: int) -> tuple[int, int]:
    """The slot behind the right one."""
    return divmod(slot + 1, page)


def page_before(slot: int, page: int) -> tuple[int, int]:
    """The first row of a page in the page before."""
    return max(slot - 1, 0) // page, slot % page


def page_behind(slot: int, page: int) -> tuple[int, int]:
    """The last row of a page in the page behind."""
    return (slot + 1) // page, slot % page


def page_as_slot(slot: int, page: int) -> tuple[int, int]:
    """The number of the page for that of the row."""
    return divmod(slot // page, page)


def whole(emission: Emission, fault: str, *tensors: str) -> str:
    """Assert that this fault alone explains all lost and stray bytes of `tensors`; its first sentence."""
    found = said(emission)
    assert {each.fault for each in found} == {fault}
    assert {each.tensor for each in found} == set(tensors)
    assert sum(each.others for each in found) == found[0].of_others
    return found[0].says


@pytest.mark.parametrize(
    ("kernel", "fault", "words"),
    [
        (Store(codes=siblings, sides="v"), "sibling-cache-stride", ("V's codes are written with row stride 240, head "
         "stride 80 (K's cache's); declared 256, 64")),
        (Store(codes=strides(192, 192), sides="v"), "page-stride-from-shape", ("V's codes are written to rows 192 "
         "elements apart, as their shape says; declared 256")),
        (Store(codes=strides(256, 256, 1, 3), sides="v"), "cache-layout", ("V's codes are written as in [dim, heads] "
         "within a row, heads innermost")),
        (Store(codes=strides(300, 300, 70, begin=5), sides="v"), "cache-layout", ("V's codes are written with row "
         "stride 300, head stride 70, +5 elements from their begin; declared row stride 256, head stride 64")),
        (Store(scales=siblings, sides="v"), "scale-address", ("V's scales are written with row stride 6, head stride 2 "
         "(those of K's scales); declared 7, 1")),
        (Store(scales=strides(3, 3, 1), sides="v"), "scale-address", ("V's scales are written side by side, row "
         "stride 3, head stride 1; declared row stride 7, head stride 1")),
        (Store(scales=strides(1, 1, 32), sides="v"), "scale-layout", "V's scales are written as in [heads, slots]"),
        (Store(scales=strides(9, 9, 2, begin=1), sides="v"), "scale-address", ("V's scales are written with row stride "
         "9, head stride 2, +1 elements from their begin; declared row stride 7, head stride 1")),
    ],
)  # fmt: skip
def test_wrong_strides_are_named_with_their_numbers(kernel: Store, fault: str, words: str) -> None:
    """Every condemned byte is explained by the one stride that is wrong, and the sentence says which."""
    emission = emitted(kernel, CASE)
    if "[heads, slots]" in words:
        kernel = Store(scales=strides(1, 1, emission.placement.slots), sides="v")
        emission = emitted(kernel, CASE)
    assert whole(emission, fault, "v").startswith(words)


@pytest.mark.parametrize(
    ("kernel", "form", "fault", "words"),
    [
        (Store(codes=strides(768), sides="v"), PAGES, "page-stride-from-shape", ("V's codes are written to pages 768 "
         "elements apart, as their shape says; declared 1024")),
        (Store(codes=strides(960, 192, 64), sides="k"), HEADS, "cache-layout",
         "K's codes are written as in [pages, rows, heads, dim] within a page"),
        (Store(code_slot=page_before, scale_slot=page_before), PAGES, "page-boundary", ("codes are written to other "
         "slots: 4 to 0")),
        (Store(code_slot=page_behind), PAGES, "page-boundary", "codes are written to other slots: 3 to 7"),
        (Store(code_slot=slot_plus_one), PAGES, "cache-layout", "each +1 from its own"),
        (Store(code_slot=page_as_slot), PAGES, "cache-layout", ("the number of the page being taken for that of the "
         "slot")),
    ],
)  # fmt: skip
def test_wrong_pages_are_named(kernel: Store, form: Form, fault: str, words: str) -> None:
    """In paged forms: pages as far apart as their shape says, rows and heads exchanged, rows at a page's edges."""
    found = said(emitted(kernel, Case(heads=3, head_dim=64, k_cache="head_padded", v_cache="padded", tokens=4), form))
    assert found[0].fault == fault
    assert words in found[0].says
    assert sum(explained(each) for each in found[:4]) > 0.9 * found[0].of_others


def test_pages_by_the_token_and_not_by_its_slot() -> None:
    """Rows at both edges of a page that all go one page back are no rows one too far: their pages are the tokens' own.

    V's scales, all but equal, fit other slots as well: they went where its codes did.
    """

    class ByToken(Store):
        def __call__(self, memory: Memory) -> None:
            number = {slot: token for token, slot in enumerate(memory.slots.tolist())}

            def page_of_token(slot: int, page: int) -> tuple[int, int]:
                return number[slot] // page, slot % page

            Store(code_slot=page_of_token, scale_slot=page_of_token)(memory)

    case = Case(heads=3, head_dim=64, tokens=3, slots="page_edges", v_values="constant", k_cache="head_padded")
    found = said(emitted(ByToken(), case, PAGES))
    assert [(each.fault, each.tensor) for each in found] == [
        ("cache-layout", "k"), ("cache-layout", "v"), ("scale-address", "k"), ("scale-address", "v"),
    ]  # fmt: skip
    assert all("4 to 0, 7 to 3, in the pages that the tokens' own numbers would have" in each.says for each in found)


def test_a_place_that_right_rows_speak_against_is_not_believed() -> None:
    """A token of number 0 whose row goes from slot 4 to 0: its own number fits it, and no other row."""
    case = Case(slots="permuted", tokens=3)
    found = said(emitted(Store(code_slot=page_before, scale_slot=page_before), case, PAGES))
    assert [(each.fault, each.tensor) for each in found[:2]] == [("page-boundary", "k"), ("page-boundary", "v")]
    assert all("own numbers" not in each.says for each in found)


def test_rows_of_one_repeated_code_are_told_by_their_place() -> None:
    """They look alike, but as many bytes are lost where they are due as are stray where K's strides lead."""
    case = Case(heads=3, head_dim=64, k_cache="head_padded", v_cache="padded", v_values="constant", tokens=2)
    found = said(emitted(Store(codes=siblings, sides="v"), case))
    assert (found[0].fault, found[0].tensor) == ("sibling-cache-stride", "v")


def test_offsets_of_16_bits_are_named_with_the_first_that_wraps() -> None:
    """Row offsets that are too large for the integer that holds them; rows below are not touched."""

    def wraps(slot: int, page: int) -> tuple[int, int]:
        del page
        return ((slot * 4608) % 65536) // 8, 0

    case = Case(heads=8, head_dim=576, slots="last", tokens=3)
    emission = emitted(Store(code_slot=wraps, codes=strides(8)), case)
    assert "wrap in an unsigned 16-bit integer; the first is 69120, and became 3584" in whole(
        emission, "index-wrap", "k", "v"
    )


@pytest.mark.parametrize("case", [CASE, Case(slots="duplicates"), Case(slots="negative_mixed"), Case(tokens=0)])
@pytest.mark.parametrize("form", [Form(), PAGES, HEADS])
def test_a_right_store_has_no_fault(case: Case, form: Form) -> None:
    """Nothing is said of it, in any form."""
    assert said(emulate(store, case, form=form)) == []


def test_equal_strides_show_no_stride_fault() -> None:
    """Where both caches are dense and alike, strides taken from the shape or the sibling are the right ones."""
    shown = seen(emulate(store, Case(heads=3, head_dim=64, tokens=4)))
    assert not shown & {"sibling-cache-stride", "page-stride-from-shape", "cache-layout", "scale-address"}
    assert "page-boundary" not in shown
    padded = seen(emulate(store, CASE, form=HEADS))
    assert padded >= {"sibling-cache-stride", "cache-layout", "page-boundary", "scale-address", "scale-layout"}


def test_observable_means_that_the_kernel_fails() -> None:
    """The usual kernels of three faults fail exactly where the fault is observable."""
    kernels = {
        "sibling-cache-stride": Store(codes=siblings),
        "page-boundary": Store(code_slot=page_before),
    }
    for fault, kernel in kernels.items():
        for view in ("dense", "padded"):
            for tokens in (1, 4):
                case = Case(heads=2, head_dim=16, k_cache=view, tokens=tokens)
                fails = judge(emulate(kernel, case, form=PAGES)).outcome != "pass"
                assert (fault in seen(emulate(store, case, form=PAGES))) == fails


def test_slots_of_eight_bits_need_more_than_256() -> None:
    """A slot that wraps is told from other wrong slots by every row."""
    assert to_slot(-1, 4) is None


@pytest.mark.parametrize(
    ("kernel", "case", "fault", "alike"),
    [
        # One head: scales side by side are scales as in [heads, slots].
        (Store(scales=strides(1, 1, 1)), Case(heads=1, head_dim=64, k_cache="head_padded", v_cache="head_padded"),
         "scale-address", "scale-layout"),
        # K's cache is dense, so that its strides are those that the shape of V's says.
        (Store(codes=siblings, sides="v"), Case(heads=3, head_dim=64, v_cache="padded"),
         "sibling-cache-stride", "page-stride-from-shape"),
        (Store(scales=strides(3, 3, 1)), CASE, "scale-address", None),
        (Store(codes=siblings, sides="v"), CASE, "sibling-cache-stride", None),
    ],
)  # fmt: skip
def test_maps_to_the_same_places_are_said_together(kernel: Store, case: Case, fault: str, alike: str | None) -> None:
    """Bytes that stand where two faults would have put them cannot tell which it was."""
    for each in said(emitted(kernel, case)):
        assert (each.fault, each.evidence.get("alike")) == (fault, alike)


def test_the_diagnosis_names_the_faults_that_lead_to_the_same_places() -> None:
    """In its sentence, as it does with faults that leave the same bytes."""
    emission = emitted(Store(scales=strides(1, 1, 1), sides="v"), Case(heads=1, head_dim=64, v_cache="head_padded"))
    (found,) = diagnose(emission, judge(emission))
    assert found.fault == "scale-address"
    assert found.says.endswith("; this case cannot tell it from scale-layout")
