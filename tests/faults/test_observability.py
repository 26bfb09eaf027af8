"""What a pass could have seen: a specimen fails exactly where its form of the fault is said to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import evidence
import pytest
from evidence.observable import FORMS as FORM
from evidence.observable import Row, Said, declared, form_of, row

from kvcheck.run.result import FORMS, SLUGS
from kvcheck.schema import Case, CaseResult
from kvcheck.targets.load import load

from .running import default, run_file
from .specimens import SPECIMENS

SAID = Said(SLUGS, FORMS)


RIGHT = Path(evidence.__file__).parent / "right_kernels.py"


@cache
def right_kernel(name: str) -> tuple[str, str]:
    """What the right kernel of a specimen's contract and form is loaded by, and its name."""
    (specimen,) = load(f"specimen:{name}")
    for spec in ("store", str(RIGHT)):
        for loaded in load(spec):
            if (loaded.target.contract, loaded.target.form) == (specimen.target.contract, specimen.target.form):
                return spec, loaded.target.name
    raise AssertionError(f"no right kernel is like {name}")


def run_right(cases: Mapping[str, Sequence[Case]]) -> dict[str, tuple[CaseResult, ...]]:
    """For each specimen the results of its right kernel over its cases; each case of a kernel is run once."""
    wanted: dict[tuple[str, str], list[Case]] = {}
    for name, some in cases.items():
        wanted.setdefault(right_kernel(name), []).extend(some)
    results: dict[tuple[str, str], dict[Case, CaseResult]] = {}
    for (spec, kernel), some in wanted.items():
        each = tuple(dict.fromkeys(some))
        results[spec, kernel] = dict(zip(each, run_file(spec, {kernel: each})[kernel], strict=True))
    return {name: tuple(results[right_kernel(name)][case] for case in some) for name, some in cases.items()}


def held(name: str, cases: Sequence[CaseResult], right: Sequence[CaseResult]) -> Row:
    """What a specimen's cases amount to, beside its right kernel's: it fails where its form of the fault is shown."""
    found = row(name, declared(f"specimen:{name}"), SAID, cases, right)
    assert found.problems == []
    return found


def test_every_specimen_has_a_right_kernel() -> None:
    """Of its contract and form, for whatever its contract is."""
    assert {right_kernel(name)[1] for name in SPECIMENS} == {"store", "right-given", "right-pages", "right-heads-pages"}


def test_every_fault_of_several_forms_says_which_a_specimen_has() -> None:
    """And every form that is named is one that is known."""
    assert set(FORM) <= set(SPECIMENS)
    for name in SPECIMENS:
        fault = declared(f"specimen:{name}")
        assert fault == "compile-failure" or form_of(name, fault) in FORMS


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SPECIMENS)
def test_over_all_of_the_default_matrix(name: str) -> None:
    """Every case of it, of which some fail and some pass: a minute a specimen, and one for each right kernel."""
    (cases,) = run_file(f"specimen:{name}", {f"specimen:{name}": default()}).values()
    found = held(name, cases, over_default(right_kernel(name)))
    assert sum(found.counts.values()) == len(default())
    assert 0 < sum(count for (failed, _), count in found.counts.items() if failed) < len(default())


@cache
def over_default(kernel: tuple[str, str]) -> tuple[CaseResult, ...]:
    """A right kernel's results, all passes, over the default matrix."""
    spec, name = kernel
    results = run_file(spec, {name: default()})[name]
    assert {result.outcome for result in results} == {"pass"}
    return results
