"""Another library's functions with kvcheck's own in their place, each of which carries the one it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ORIGINAL = "kvcheck_original"


def is_replaced(function: object) -> bool:
    """Whether `put` has put this function in some other's place."""
    return hasattr(function, _ORIGINAL)


def original(function: Callable[..., Any]) -> Callable[..., Any]:
    """What the function stands for: itself, if nothing else."""
    found: Callable[..., Any] = getattr(function, _ORIGINAL, function)
    return found


def put(owner: object, name: str, function: Callable[..., Any]) -> None:
    """Put `function` in the place of the owner's function of that name. Raises KeyError where there is none."""
    setattr(function, _ORIGINAL, original(vars(owner)[name]))
    setattr(owner, name, function)


def restore(owner: object, name: str) -> None:
    """Give the owner its own function back. Where it has it, or has none of that name, nothing changes."""
    function = vars(owner).get(name)
    if is_replaced(function):
        setattr(owner, name, getattr(function, _ORIGINAL))
