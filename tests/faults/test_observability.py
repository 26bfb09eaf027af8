"""What a pass could have seen: a specimen fails exactly where its form of the fault is said to show."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from evidence.observable import FORMS as FORM
from evidence.observable import Row, Said, declared, form_of, row

from kvcheck.contract import Form
from kvcheck.run.result import FORMS, SLUGS
from kvcheck.schema import Case, CaseResult
from kvcheck.targets.load import load

from .running import Results, default, run_file
from .specimens import SPECIMENS

SAID = Said(SLUGS, FORMS)
#: The faults whose specimens are asked for less: see `evidence.observable`.
OTHERWISE = {"compile-failure", "nondeterministic"}


def _chosen(name: str) -> list[Case]:
    """A case that shows a specimen's fault, and another of the default matrix's small ones for each specimen."""
    small = [case for case in default() if case.tokens > 1 and case.dim_v <= 64]
    return [SPECIMENS[name].shows, small[sorted(SPECIMENS).index(name) % len(small)]]


@pytest.fixture(scope="module")
def specimens() -> Results:
    """Every specimen over its cases, in one process that forks."""
    return run_file("specimen:*", {f"specimen:{name}": _chosen(name) for name in SPECIMENS})


@pytest.fixture(scope="module")
def right() -> tuple[CaseResult, ...]:
    """`store` over the cases of the specimens that have its contract and form."""
    cases = dict.fromkeys(case for name in SPECIMENS if _is_like_store(name) for case in _chosen(name))
    (found,) = run_file("store", {"store": list(cases)}).values()
    assert {case.outcome for case in found} == {"pass"}
    return found


def _is_like_store(name: str) -> bool:
    (store,), (loaded,) = load("store"), load(f"specimen:{name}")
    return loaded.target.contract == store.target.contract and loaded.target.form == Form("slots", codes="uint8")


def _held(name: str, cases: Sequence[CaseResult], right: Sequence[CaseResult]) -> Row:
    like = right if _is_like_store(name) else ()
    found = row(name, declared(f"specimen:{name}"), SAID, cases, like)
    assert found.problems == []
    return found


@pytest.mark.parametrize("name", SPECIMENS)
def test_a_specimen_fails_where_its_fault_is_shown_and_nowhere_else(
    name: str, specimens: Results, right: tuple[CaseResult, ...]
) -> None:
    """Over a few cases; where it passes, its bytes are the right kernel's, and so is what the case shows."""
    cases = specimens[f"specimen:{name}"]
    found = _held(name, cases, right)
    if found.fault not in OTHERWISE:
        assert found.counts[True, True]
    assert found.unjudged == 0, [case.reason for case in cases]


def test_every_fault_of_several_forms_says_which_a_specimen_has() -> None:
    """And every form that is named is one that is known."""
    assert set(FORM) <= set(SPECIMENS)
    for name in SPECIMENS:
        fault = declared(f"specimen:{name}")
        assert fault == "compile-failure" or form_of(name, fault) in FORMS


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SPECIMENS)
def test_over_all_of_the_default_matrix(name: str) -> None:
    """Every case of it: a minute a specimen."""
    (cases,) = run_file(f"specimen:{name}", {f"specimen:{name}": default()}).values()
    (right,) = run_file("store", {"store": default()}).values() if _is_like_store(name) else ((),)
    assert sum(_held(name, cases, right).counts.values()) == len(default())
