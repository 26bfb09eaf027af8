"""A target's process holds kvcheck's code too: replaced there, it is no witness."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

import kvcheck.run.case
from kvcheck.memory.arena import Memory
from kvcheck.run.untouched import replaced


def _mine(*_: object) -> None:
    """A target's function."""


class _Mine:
    """A target's class."""

    def download(self) -> None:
        """As kvcheck's."""


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
def test_what_is_replaced_is_named(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, value: object, said: str
) -> None:
    """A method, a property, a function that a module imports, a class, torch's and numpy's own."""
    monkeypatch.setattr(owner, name, value)
    assert replaced() == said
