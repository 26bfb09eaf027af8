"""What a pass could have seen: a specimen fails exactly where its form of the fault is said to show."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from evidence.observable import FORMS as FORM
from evidence.observable import Row, Said, declared, form_of, row

from kvcheck.contract import Form
from kvcheck.run.result import FORMS, SLUGS
from kvcheck.schema import CaseResult
from kvcheck.targets.load import load

from .running import default, run_file
from .specimens import SPECIMENS

SAID = Said(SLUGS, FORMS)


def is_like_store(name: str) -> bool:
    """Whether a specimen has the contract and the form of `store`, whose bytes are its right ones then."""
    (store,), (loaded,) = load("store"), load(f"specimen:{name}")
    return loaded.target.contract == store.target.contract and loaded.target.form == Form("slots", codes="uint8")


def held(name: str, cases: Sequence[CaseResult], right: Sequence[CaseResult]) -> Row:
    """What a specimen's cases amount to, beside those of `store`: it fails where its form of the fault is shown."""
    like = right if is_like_store(name) else ()
    found = row(name, declared(f"specimen:{name}"), SAID, cases, like)
    assert found.problems == []
    return found


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
    (right,) = run_file("store", {"store": default()}).values() if is_like_store(name) else ((),)
    assert sum(held(name, cases, right).counts.values()) == len(default())
