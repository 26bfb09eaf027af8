"""Which copies of its tensors a target is seen to make: its own, and none of the interpreter's inside a launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from lowering.test_torch_modes import Seen
from sketches.running import run

from kvcheck.api import Cache
from kvcheck.kernels.store import store, store_kernel
from kvcheck.run import case
from kvcheck.run.witness import Witness
from kvcheck.schema import Case, Copy, Emission

CASE = Case(tokens=2, heads=2, head_dim=16)

Function = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Cache], None]


def emission(function: Function) -> Emission:
    """What is left of a target that launches kvcheck's own kernel in its way."""
    found = run(replace(store, function=function), CASE)
    assert isinstance(found, Emission), found.error
    return found


def test_copies_around_a_launch_are_seen() -> None:
    """Before it, between two and behind; the launches receive what they were handed."""

    def copying(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        k.clone()
        store(k, v, slots, cache)
        v.clone()
        store(k, v, slots, cache)
        v.clone()

    found = emission(copying)
    assert found.copies == (Copy("k", "aten::clone", 1), Copy("v", "aten::clone", 2))
    assert [each.tensor for each in found.received] == [
        "k", "v", "slots", "k_codes", "v_codes", "k_scales", "v_scales",
    ]  # fmt: skip


def test_a_launch_that_fails_hides_no_copy_behind_it() -> None:
    """A target may catch what a kernel raises."""

    def caught(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        with pytest.raises(TypeError, match="missing"):
            store_kernel[(1,)](k)
        k.clone()
        store(k, v, slots, cache)

    assert emission(caught).copies == (Copy("k", "aten::clone", 1),)


def test_a_mode_of_the_targets_own_sees_what_it_always_did() -> None:
    """What the interpreter does inside a launch among it, which counts as no copy of the target's all the same."""
    modes: list[Seen] = []

    def with_mode(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        modes.append(Seen())
        with modes[-1]:
            store(k, v, slots, cache)

    found = emission(with_mode)
    assert found.copies == ()
    assert len({mode.count for mode in modes}) == 1
    assert modes[0].count > 0


def test_what_a_launch_does_inside_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would count for nothing, and takes time: but where a mode of the target's own stands before the witness."""
    seen: list[int] = []
    original: Callable[..., object] = Witness.__torch_dispatch__

    def noted(self: Any, *args: Any, **kwargs: Any) -> object:
        seen.append(self.watch.inside)
        return original(self, *args, **kwargs)

    def with_mode(*args: Any) -> None:
        with Seen():
            store(*args)

    monkeypatch.setattr(Witness, "__torch_dispatch__", noted)
    monkeypatch.setattr(case, "replaced", lambda: None)
    emission(store.function)
    assert set(seen) == {0}
    seen.clear()
    emission(with_mode)
    assert set(seen) == {0, 1}
