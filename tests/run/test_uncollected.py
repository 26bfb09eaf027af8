"""The collector is held off while modules are imported, and never longer."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kvcheck.run.imports import uncollected


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.enable()


def test_it_does_not_look_in_the_block_and_does_behind_it() -> None:
    """By the collections that it counts; also where the block is left by an error."""
    before = gc.get_threshold()
    runs: list[list[int]] = []

    def leave(kept: list[list[int]]) -> None:
        with uncollected():
            runs.append([each["collections"] for each in gc.get_stats()])
            kept += [[number] for number in range(100_000)]
            runs.append([each["collections"] for each in gc.get_stats()])
            raise KeyError

    kept: list[list[int]] = []
    with pytest.raises(KeyError):
        leave(kept)
    assert len(kept) == 100_000
    assert runs[0] == runs[1]
    assert gc.get_threshold() == before
    assert gc.isenabled()


def test_what_an_import_asks_of_it_stands() -> None:
    """Its own threshold, or none at all: the target's code finds the collector as its module left it."""
    with uncollected():
        gc.set_threshold(5, 6, 7)
    assert gc.get_threshold() == (5, 6, 7)
    with uncollected():
        gc.disable()
    assert gc.get_threshold() == (5, 6, 7)
    assert not gc.isenabled()
