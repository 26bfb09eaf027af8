"""Fences: a right kernel stores the same bytes behind them, and one that goes too far is stopped, and said to have."""

from __future__ import annotations

import re

import pytest

from kvcheck.matrix.ids import case_id
from kvcheck.memory.fences import FENCES
from kvcheck.schema import Case, CaseResult

from .running import Results, run_file
from .specimens import small
from .test_observability import held

#: The layouts that a case's bytes must not depend on.
LAYOUTS = ("arena", "pooled", "recycled", "exact", *FENCES)
#: Cases of `store`: sizes that 16 does not divide, views with gaps and offsets, padded caches, all dtypes.
RIGHT: tuple[dict[str, str | int], ...] = (
    {"head_dim": 46, "align": 2, "k_view": "qkv", "v_view": "offset1"},
    {"head_dim": 46, "k_view": "inner2", "v_view": "head_padded", "dtype": "fp32", "slots": "negative_mixed"},
    {"k_cache": "padded", "v_cache": "head_padded", "v_view": "transposed", "dtype": "fp16", "slots": "duplicates"},
    {"tokens": 8, "k_view": "offset17", "v_view": "head_interleaved", "slot_view": "every_second", "extra_tokens": 3},
    {"tokens": 0},
)

DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.gpu))


#: Cases in which zeros lie beyond the fence, by layout.
HIDDEN = {
    layout: [
        small(k_view="qkv", layout=layout, v_values="all_zero"),
        small(v_view="qkv", layout=layout, k_values="all_zero", slots="duplicates"),
    ]
    for layout in FENCES
}
PITCH = small(k_view="qkv", layout="fence")
#: The smallest step past the end that there is, at each of the alignments that let V end at its fence.
SMALLEST = [small(head_dim=48, layout="fence"), small(head_dim=46, align=2, tokens=1, layout="fence")]
#: A signed 16-bit offset of 32768 elements or more is negative.
WRAPS = small(tokens=8, heads=8, head_dim=576, k_view="head_padded", layout="fence-before")


@pytest.fixture(scope="module")
def specimens() -> Results:
    """The specimens that fences are to stop, over all of their cases, in one nursery."""
    hidden = [case for cases in HIDDEN.values() for case in cases]
    return run_file(
        "specimen:*",
        {
            "specimen:shared-pitch": [PITCH, *hidden],
            "specimen:shared-pitch-of-v": hidden,
            "specimen:amax-behind-row": SMALLEST,
            "specimen:wrapped-source": [WRAPS],
        },
    )


@pytest.fixture(scope="module")
def right() -> dict[str, CaseResult]:
    """The right kernel over the cases in which zeros lie beyond the fence, by their ids."""
    cases = [case for cases in HIDDEN.values() for case in cases]
    return {result.id: result for result in run_file("store", {"store": cases})["store"]}


def _cases(axes: dict[str, str | int]) -> list[Case]:
    return [small(**axes, layout=layout) for layout in LAYOUTS]


@pytest.mark.parametrize("device", DEVICES)
def test_a_right_kernel_stores_the_same_bytes_in_every_layout(device: str) -> None:
    """Not one of its cases is stopped, and all layouts of a case have one digest."""
    cases = [case for axes in RIGHT for case in _cases(axes)]
    (results,) = run_file("store", {"store": cases}, device).values()
    assert [result.outcome for result in results] == ["pass"] * len(cases)
    for start in range(0, len(cases), len(LAYOUTS)):
        assert len({result.digest for result in results[start : start + len(LAYOUTS)]}) == 1


def _confirmed(specimen: str, case: Case, device: str = "cpu") -> CaseResult:
    """What a run says of a case that a fence stops, once it has run it again."""
    (results,) = run_file(specimen, {specimen: [case]}, device, confirm=True).values()
    (result,) = results
    assert (result.outcome, result.codes.compared, result.cold_confirmed) == ("crash", 0, True)
    return result


def _stopped(specimens: Results, specimen: str, case: Case) -> CaseResult:
    """What became of a specimen that must not come through a case."""
    (result,) = (each for each in specimens[specimen] if each.id == case_id(case))
    assert (result.outcome, result.codes.compared) == ("crash", 0)
    return result


@pytest.mark.parametrize("layout", FENCES)
def test_a_case_that_a_fence_stops_shows_what_it_would_have_shown_of_a_right_kernel(
    layout: str, specimens: Results, right: dict[str, CaseResult]
) -> None:
    """Its form among them, where zeros lie beyond the fence that its bytes would not tell from its own."""
    ids = [case_id(case) for case in HIDDEN[layout]]
    for number, name in enumerate(("shared-pitch", "shared-pitch-of-v")):
        found = {result.id: result for result in specimens[f"specimen:{name}"]}
        results, due = tuple(found[each] for each in ids), tuple(right[each] for each in ids)
        held(name, results, due)
        assert results[number].outcome == ("crash" if layout == "fence" else "pass")
        assert results[number].shown == due[number].shown


def test_a_pitch_that_leads_past_the_end_is_stopped_there(specimens: Results) -> None:
    """Token 2 of 3 is read 2 * 432 elements in, one of V's 3 * 144 elements long rows behind the end."""
    result = _stopped(specimens, "specimen:shared-pitch", PITCH)
    assert result.process.signal == "SIGSEGV"
    found = re.fullmatch(
        "v is read ([0-9]+) bytes? past its end, where nothing is mapped; killed by SIGSEGV in launch 1", result.reason
    )
    assert found, result.reason
    assert 0 < int(found[1]) < 2 * 432 * 3


def test_one_element_past_the_end_is_one_too_many(specimens: Results) -> None:
    """The smallest step there is, at each of the alignments that let V end at its fence."""
    for case in SMALLEST:
        result = _stopped(specimens, "specimen:amax-behind-row", case)
        assert result.reason.startswith("k is read 1 byte past its end"), result.reason


def test_an_offset_that_wraps_leads_before_the_beginning(specimens: Results) -> None:
    """A signed 16-bit offset of 32768 elements or more is negative."""
    result = _stopped(specimens, "specimen:wrapped-source", WRAPS)
    assert re.match("k is read [0-9]+ bytes before its beginning, where nothing is mapped", result.reason), (
        result.reason
    )


def test_what_a_fence_stopped_is_run_again_where_its_bytes_name_the_cause() -> None:
    """The cause first, as the arena's bytes name it; then the tensor that was left."""
    result = _confirmed("specimen:shared-pitch", PITCH)
    cause, left = result.diagnosis
    assert (cause.fault, cause.tensor, cause.evidence["layout"]) == ("sibling-pitch", "v", "arena")
    says = "V is read with token pitch 432 (K's); declared 144; explains 286 of 286 wrong codes, in layout arena"
    assert cause.says == says
    assert (left.fault, left.tensor, left.evidence["side"]) == ("foreign-read", "v", "end")


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("specimen", "views", "tensor"),
    [("shared-pitch", {"k_view": "qkv"}, "v"), ("shared-pitch-of-v", {"v_view": "qkv"}, "k")],
)
def test_on_a_gpu_the_overrun_tensor_is_found_by_fencing_one_at_a_time(
    specimen: str, views: dict[str, str | int], tensor: str
) -> None:
    """CUDA does not say at which tensor the kernel was stopped: the fence that stops it alone does."""
    result = _confirmed(f"specimen:{specimen}", small(**views, layout="fence"), "cuda")
    assert "illegal memory access" in result.reason
    assert result.reason.startswith(f"{tensor} is overrun past its end, where nothing is mapped: with this fence alone")
    assert [(found.fault, found.tensor) for found in result.diagnosis] == [
        ("sibling-pitch", tensor),
        ("foreign-read", tensor),
    ]
