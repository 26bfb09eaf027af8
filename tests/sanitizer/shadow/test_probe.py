"""The self-test: it passes here, and says what is missing where a part of shadow memory does not work."""

from __future__ import annotations

import re

import numpy as np
import pytest
import triton

from kvcheck.sanitizer.shadow import interpreter, watch, where
from kvcheck.sanitizer.shadow.interpreter import is_launch
from kvcheck.sanitizer.shadow.pointers import Pointers, View
from kvcheck.sanitizer.shadow.probe import proof
from kvcheck.sanitizer.shadow.segments import Segments
from kvcheck.sanitizer.shadow.shadow import Shadow
from kvcheck.sanitizer.shadow.where import Site, site


def test_it_works_here() -> None:
    """On the Triton that the tests run with."""
    assert proof() is None


def test_everything_is_put_back() -> None:
    """After a block, and after one that raises, the interpreter has its own functions."""
    module = triton.runtime.interpreter
    before = (module._interpreter, module._implicit_cvt, module.InterpretedFunction.run)
    assert proof() is None
    with pytest.raises(RuntimeError, match="of the kernel's"), interpreter.shown(_Blind()):
        raise RuntimeError("of the kernel's")
    assert (module._interpreter, module._implicit_cvt, module.InterpretedFunction.run) == before


class _Blind:
    """A watcher that finds nothing."""

    def launched(self, kernel: str, /) -> None:
        """Nothing."""

    def received(self, view: View, /) -> int:  # noqa: ARG002
        """The first."""
        return 1

    def accessed(self, _access: str, pointers: Pointers, _size: int, _asked: object, /) -> tuple[Pointers, None]:
        """Everything is right."""
        return pointers, None


def test_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Triton whose accesses go another way."""
    monkeypatch.setattr(Shadow, "_keep", lambda *_: None)
    assert re.fullmatch(r"triton \S+: shadow memory missed the \S+ access at line \d+ of its self-test", proof() or "")


def test_lines_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Triton that moves a kernel's lines."""

    def moved(_: object) -> Site | None:
        found = site(is_launch)
        return found and found._replace(line=found.line + 1)

    monkeypatch.setattr(watch, "site", moved)
    assert "of its self-test" in (proof() or "")


def test_right_accesses_are_called_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map on which nothing is known."""
    monkeypatch.setattr(Segments, "hold", lambda _self, found, *_: np.zeros(len(found), np.bool_))
    assert "of its self-test" in (proof() or "")


def test_values_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Triton whose loads bring something else under shadow memory."""
    load = interpreter._Native.load
    # What stands between the kernel and the check would be taken for the kernel's line.
    monkeypatch.setattr(where, "_folders", (*where._foreign(), __file__))
    monkeypatch.setattr(interpreter._Native, "load", lambda self, *args: load(self, *args) * 0)
    assert "the self-test's kernel stored [0" in (proof() or "")


def test_internals_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Triton without one of the private names."""
    monkeypatch.delattr(triton.runtime.interpreter, "_implicit_cvt")
    assert "the self-test of shadow memory raised AttributeError" in (proof() or "")
