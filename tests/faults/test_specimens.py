"""Every specimen fails, by bytes, where its fault can show, and passes where it cannot."""

from __future__ import annotations

import pytest

from kvcheck.schema import CaseResult
from kvcheck.targets.load import check_name, load, names

from .channels import channels
from .running import Results, run_file
from .specimens import SPECIMENS
from .test_observability import held, run_right

#: The slugs that a specimen may declare: the vocabulary of reports.
FAULTS = {
    *("sibling-pitch", "dense-heads", "inner-stride-ignored", "offset-ignored", "sibling-cache-stride", "cache-layout"),
    *("page-stride-from-shape", "page-boundary", "head-mapping", "index-wrap", "tail-mask", "misaligned"),
    *("scale-address", "scale-layout", "scale-swapped", "scale-misapplied", "scale-rounded", "amax-population"),
    *("wrong-max", "zero-row", "rounding-mode", "double-rounding-fp16", "double-rounding-bf16"),
    *("approximate-division", "lost-carry", "subnormal-flush", "negative-zero", "early-saturation"),
    *("overflow-to-nan", "nan-laundered", "format-confusion", "reinterpreted-source", "numeric-store"),
    *("token-lost", "stray-write", "negative-slot", "duplicate-slot", "uninitialised-read", "foreign-read"),
    *("input-mutated", "compile-failure", "nondeterministic", "layer-remap", "graph-stale"),
}


NAMES = tuple(name.removeprefix("specimen:") for name in names() if name.startswith("specimen:"))


@pytest.fixture(scope="module")
def results() -> Results:
    """Every specimen over its two cases, in one process that forks."""
    return run_file("specimen:*", {f"specimen:{name}": (row.shows, row.hides) for name, row in SPECIMENS.items()})


def test_each_specimen_has_its_row_and_each_fault_its_specimen() -> None:
    """As many rows as files, and every fault of the list is declared by one of them at least."""
    assert sorted(SPECIMENS) == sorted(NAMES)
    assert {loaded.target.declares for loaded in load("specimen:*")} == FAULTS


def test_a_pattern_names_the_built_in_targets_that_it_matches() -> None:
    """`specimen:*` is all specimens, in their order; a part of a name is a pattern too."""
    assert [loaded.target.name for loaded in load("specimen:maximum-*")] == [
        "specimen:maximum-240",
        "specimen:maximum-440",
    ]
    check_name("specimen:*")


@pytest.mark.parametrize("name", SPECIMENS)
def test_a_specimen_fails_where_its_fault_shows(name: str, results: Results) -> None:
    """By every channel that its fault is seen in: wrong bytes, not a failure of another kind."""
    shown, _ = results[f"specimen:{name}"]
    assert channels(shown) >= SPECIMENS[name].channels, (shown.outcome, shown.reason)
    assert shown.outcome == ("crash" if name == "exact-range" else _outcome(shown))


def test_a_specimen_fails_where_its_form_is_said_to_show(results: Results) -> None:
    """And passes where it is not, with the bytes of the right kernel, whose cases show the same."""
    rights = run_right({name: (row.shows, row.hides) for name, row in SPECIMENS.items()})
    assert {case.outcome for right in rights.values() for case in right} == {"pass"}
    for name in SPECIMENS:
        found = held(name, results[f"specimen:{name}"], rights[name])
        assert found.unjudged == 0
        if found.fault != "compile-failure":
            assert found.counts == {(True, True): 1, (False, False): 1}, name


def test_what_the_language_refuses_is_a_compile_failure(results: Results) -> None:
    """The interpreter applies the rules of the compiler, and a kernel that breaks them compiles nowhere."""
    shown, _ = results["specimen:exact-range"]
    (named,) = shown.diagnosis
    assert (named.fault, named.evidence["compiler"]) == ("compile-failure", "arange's range must be a power of 2")


def _outcome(result: CaseResult) -> str:
    """The worst that a case's channels make of it."""
    found = channels(result)
    return "mismatch" if found & {"codes", "scales", "lost", "stray"} else "violation"


@pytest.mark.parametrize("name", SPECIMENS)
def test_a_specimen_passes_where_its_fault_cannot_show(name: str, results: Results) -> None:
    """A fault that nobody could see is no reason to fail."""
    _, hidden = results[f"specimen:{name}"]
    assert (hidden.outcome, channels(hidden)) == ("pass", set()), hidden.reason


@pytest.mark.gpu
def test_on_a_gpu_every_specimen_fails_and_passes_where_it_does_without_one() -> None:
    """Compiled, by the same channels; and a case that cannot show its fault passes."""
    cases = {f"specimen:{name}": (row.shows, row.hides) for name, row in SPECIMENS.items()}
    found = run_file("specimen:*", cases, "cuda")
    for name, row in SPECIMENS.items():
        shown, hidden = found[f"specimen:{name}"]
        assert channels(shown) >= row.channels, (name, shown.outcome, shown.reason)
        assert (name, hidden.outcome) == (name, "pass"), hidden.reason
