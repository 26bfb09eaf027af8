"""A dispatch mode that is taken off for a while, and what it must not disturb."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kvcheck.lowering import torch_modes
from kvcheck.lowering.torch_modes import PlainDispatchMode
from kvcheck.lowering.triton_launches import Watch


class Seen(PlainDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what it sees."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self, func: Callable[..., object], _types: object, args: tuple[object, ...] = (), kwargs: object = None
    ) -> object:
        self.count += 1
        return func(*args, **(kwargs if isinstance(kwargs, dict) else {}))


def test_a_mode_that_is_aside_sees_nothing() -> None:
    """But everything before and behind, whatever is raised in between."""
    with Seen() as mode:
        torch.zeros(1)
        with pytest.raises(TypeError), mode.aside():
            torch.zeros(torch.zeros(1))  # type: ignore[call-overload]
        assert mode.count == 1
        torch.zeros(1)
    torch.zeros(1)
    assert mode.count == 2


def test_a_mode_within_sees_what_it_always_did() -> None:
    """The one around it is then left on, and sees it too."""
    with Seen() as outer, Seen() as inner:
        with outer.aside():
            torch.zeros(1)
        assert (outer.count, inner.count) == (1, 1)
        with inner.aside():
            torch.zeros(1)
    assert (outer.count, inner.count) == (2, 1)


def test_a_mode_that_is_pushed_aside_one_is_on_alone() -> None:
    """As one is that a kernel's own code turns on."""
    with Seen() as mode:
        with mode.aside(), Seen() as inner:
            torch.zeros(1)
        torch.zeros(1)
    assert (mode.count, inner.count) == (1, 1)


@pytest.mark.parametrize("name", ["_innermost", "_pop", "_push"])
def test_a_torch_without_these_functions_leaves_it_on(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It is slower, and nothing else."""
    monkeypatch.setattr(torch_modes, name, None)
    with Seen() as mode, mode.aside():
        torch.zeros(1)
    assert mode.count == 1


def test_nothing_is_put_around_a_launch_unasked() -> None:
    """A watch alone has no mode."""
    with Watch().aside():
        pass
