"""Every fault of the table fails the default matrix, in the cases that show it and by the channels that it should."""

from __future__ import annotations

from itertools import groupby

import pytest

from kvcheck.schema import Case, CaseResult

from .channels import channels
from .running import KERNELS, Results, default, run_file, run_files, size
from .table import TABLE, Row

#: How many cases of each row are run: the smallest that show it, and the smallest that hide it.
SHOWN, HIDDEN = 3, 2

#: A kernel for each contract of the table's.
SOUND = ("sound", "sound-given", "sound-token", "sound-e8m0")


def _chosen(row: Row) -> tuple[list[Case], list[Case]]:
    """The cases that are run of a row: those that show its fault, and those that hide it."""
    shown = [case for case in default() if row.shows(case)]
    hidden = [case for case in default() if row.hides(case)]
    return shown[:SHOWN], hidden[:HIDDEN]


@pytest.fixture(scope="module")
def results() -> Results:
    """Every kernel of the table over its own cases; those that all of them are made of over some small ones."""
    cases = {row.target: [*_chosen(row)[0], *_chosen(row)[1]] for row in TABLE}
    small = [case for case in default() if case.tokens and size(case) < 4000][::14]
    return run_files({*(row.file for row in TABLE), "sound"}, cases | dict.fromkeys(SOUND, small))


def test_every_kernel_of_the_table_has_a_row_of_its_own(results: Results) -> None:
    """Each row's kernel was found and run, and no two rows share one."""
    assert len({row.target for row in TABLE}) == len(TABLE)
    assert set(results) == {row.target for row in TABLE} | set(SOUND)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.target)
def test_the_default_matrix_has_cases_that_show_a_fault_and_cases_that_hide_it(row: Row) -> None:
    """Enough of both to run; none is said to do both."""
    shown, hidden = _chosen(row)
    assert (len(shown), len(hidden)) == (SHOWN, HIDDEN)
    assert not any(row.shows(case) and row.hides(case) for case in default())


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.target)
def test_a_fault_is_seen_where_it_shows_and_nowhere_else(row: Row, results: Results) -> None:
    """The outcome, and each channel that condemns, in the cases that show it; a pass in those that hide it."""
    shown, hidden = results[row.target][:SHOWN], results[row.target][SHOWN:]
    for result in shown:
        assert_shown(row, result)
    assert [(result.outcome, channels(result)) for result in hidden] == [("pass", set())] * HIDDEN


def assert_shown(row: Row, result: CaseResult) -> None:
    """Fail unless a case shows a row's fault, by all of its channels and no foreign one."""
    assert (result.id, result.outcome) == (result.id, row.outcome), result.reason
    # What a kernel reads beside its rows may be other poison in each launch: that it drifts then is no other fault.
    assert row.channels <= channels(result) - {"determinism"} <= row.channels | row.also, result.reason


@pytest.mark.parametrize("name", SOUND)
def test_without_its_fault_a_kernel_passes(name: str, results: Results) -> None:
    """The parts that the faulty kernels are made of are right: what condemns those is the one part exchanged."""
    assert len(results[name]) > 5
    assert {result.outcome for result in results[name]} == {"pass"}
    assert sum(result.codes.compared for result in results[name]) > 1000


@pytest.mark.gpu
def test_on_a_gpu_every_fault_of_the_table_is_seen_too() -> None:
    """Compiled, over the smallest case of each row that shows its fault and the smallest that hides it."""
    for file, rows in groupby(TABLE, key=lambda row: row.file):
        chosen = {row.target: (row, _chosen(row)[0][0], _chosen(row)[1][0]) for row in rows}
        found = run_file(
            KERNELS / f"{file}.py", {name: (shown, hidden) for name, (_, shown, hidden) in chosen.items()}, "cuda"
        )
        for name, (row, _, _) in chosen.items():
            shown, hidden = found[name]
            assert_shown(row, shown)
            assert (name, hidden.outcome) == (name, "pass"), hidden.reason


@pytest.mark.exhaustive
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.target)
def test_over_all_of_the_default_matrix(row: Row) -> None:
    """Every case that shows the fault fails by its channels, and every case that hides it passes: minutes a row."""
    cases = default()
    (found,) = run_file(f"{KERNELS / row.file}.py::{row.target}", {row.target: cases}).values()
    for case, result in zip(cases, found, strict=True):
        if row.shows(case):
            assert_shown(row, result)
        if row.hides(case):
            assert (result.id, result.outcome) == (result.id, "pass"), result.reason
