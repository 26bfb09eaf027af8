"""A target's process holds kvcheck's code too: replaced there, it is no witness."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import kvcheck.run.case
from kvcheck.kernels.store import store
from kvcheck.memory.arena import Memory
from kvcheck.run import untouched
from kvcheck.run.case import run_case
from kvcheck.run.dict_versions import told
from kvcheck.run.protocol import Job
from kvcheck.run.untouched import remember, replaced
from kvcheck.schema import Case


def _mine(*_: object) -> None:
    """A target's function."""


class _Mine:
    """A target's class."""

    def download(self) -> None:
        """As kvcheck's."""


@pytest.fixture
def forgotten() -> Iterator[None]:
    """A process that has not looked; nor has it afterwards."""
    untouched._CLEAN.clear()
    yield
    untouched._CLEAN.clear()


def test_nothing_is_replaced_in_a_process_that_runs_cases() -> None:
    """kvcheck's modules hold functions of its own, of the libraries it names and of Python's."""
    assert kvcheck.run.case.__name__  # loaded, with all that it calls
    assert replaced() is None


@pytest.mark.parametrize(
    ("owner", "name", "value", "said"),
    [
        (Memory, "download", _mine, "kvcheck.memory.arena.Memory.download"),
        (Memory, "download", functools.wraps(Memory.download)(_mine), "kvcheck.memory.arena.Memory.download"),
        (Memory, "span", property(_mine), "kvcheck.memory.arena.Memory.span"),
        (Memory, "fences", staticmethod(_mine), "kvcheck.memory.arena.Memory.fences"),
        (kvcheck.run.case, "case_inputs", _mine, "kvcheck.run.case.case_inputs"),
        (kvcheck.run.case, "Memory", _Mine, "kvcheck.run.case.Memory"),
        (torch.Tensor, "cpu", _mine, "Tensor.cpu"),
        (torch.cuda, "synchronize", _mine, "torch.cuda.synchronize"),
        (np, "array_equal", _mine, "numpy.array_equal"),
    ],
)
@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("remembered", [False, True])
def test_what_is_replaced_is_named(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, value: object, said: str, *, remembered: bool
) -> None:
    """A method, a property, a function that a module imports, a class, torch's and numpy's own.

    So it is in a process that has looked before.
    """
    if remembered:
        remember()
    monkeypatch.setattr(owner, name, value)
    assert replaced() == said


@pytest.mark.usefixtures("forgotten")
def test_what_was_replaced_before_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that replaces something when it is imported has done so for every case."""
    monkeypatch.setattr(Memory, "download", _mine)
    remember()
    assert replaced() == "kvcheck.memory.arena.Memory.download"


@pytest.mark.usefixtures("forgotten")
def test_a_case_changes_nothing_of_kvchecks(tmp_path: Path) -> None:
    """So that a child needs no second look: that is what a remembered one saves."""
    job = Job(1, "store", Case(tokens=1, heads=1, head_dim=16), str(tmp_path), 60.0)
    run_case(job, store, torch.device("cpu"))  # imports what it does late
    remember()
    run_case(job, store, torch.device("cpu"))
    assert untouched._CLEAN[0].unchanged() == told()
