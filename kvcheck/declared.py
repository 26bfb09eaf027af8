"""What a target's decorator is given, checked where it stands: a mistake would be found in every case, or in none."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TypeVar

from kvcheck.contract import Accepts, Contract, EncoderContract, Form, LoadContract
from kvcheck.errors import TargetError

_Data = TypeVar("_Data", Contract, LoadContract, EncoderContract, Accepts, Form)

#: Every mistake is one of these: a kernel that refuses by them would never crash.
_TOO_WIDE = (BaseException, Exception)


def checked_name(name: object) -> str:
    """A target's name. Raises TargetError where it is none that `--target` and a report could say."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or "::" in name or name != name.strip():
        raise TargetError(f"a target is named {name!r}; expected printable text without '::'")
    return name


def checked(target: str, value: _Data, kind: type[_Data], key: str) -> _Data:
    """`value`, which has checked its fields itself, if it is of that kind. Raises TargetError where it is not."""
    if not isinstance(value, kind):
        raise TargetError(f"target {target!r}: {key} is {type(value).__name__}; expected kvcheck.{kind.__name__}")
    return value


def refusals(target: str, refuses: Sequence[object]) -> tuple[str, ...]:
    """The qualified names of the exceptions that mean a refusal. Raises TargetError for anything else."""
    if not isinstance(refuses, (list, tuple)):
        raise TargetError(f"target {target!r}: refuses is {refuses!r}; expected a tuple of exception classes")
    names = []
    for kind in refuses:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TargetError(f"target {target!r}: refuses has {kind!r}; expected exception classes")
        if kind in _TOO_WIDE:
            raise TargetError(
                f"target {target!r}: refuses has {kind.__name__}, which any crash is; expected the exceptions by which "
                "the kernel refuses"
            )
        names.append(f"{kind.__module__}.{kind.__qualname__}")
    return tuple(names)


def check_function(target: str, function: Callable[..., object], count: int, expected: str) -> None:
    """Check that a function can be called with `count` positional arguments, and then runs. Raises TargetError."""
    try:
        inspect.signature(function).bind(*range(count))
    except (TypeError, ValueError) as error:
        raise TargetError(f"target {target!r}: the function does not take ({expected}): {error}") from error
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TargetError(f"target {target!r}: the function is async or yields: a call of it runs nothing")


def check_beside(target: str, declares: object, prepare: object) -> None:
    """Check what may stand beside a contract. Raises TargetError."""
    if declares is not None and not isinstance(declares, str):
        raise TargetError(f"target {target!r}: declares is {declares!r}; expected the name of a fault")
    if prepare is not None and not callable(prepare):
        raise TargetError(f"target {target!r}: prepare is {prepare!r}; expected a function")
