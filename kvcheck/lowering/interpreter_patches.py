"""Triton's interpreter with its patches kept. The only place that touches how it puts its own functions in.

A launch puts the interpreter's functions in the place of the language's, which it goes through name by name to find
them; the next launch finds the same. So does, once more, every call of a device function, which finds nothing left to
replace. And what it puts there sorts a call's arguments, and calls the language's own wrapper, to do the same again.
`_patch_lang`, `_LangPatchScope` and `_patch_attr` are private: on a Triton without them nothing changes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any, Protocol, TypeAlias

from kvcheck.lowering import replaced

_NAME, _MEMBER = "_patch_lang", "_patch_attr"
#: What `_patch_attr` is called with, where it is the one that is known here.
_PARAMETERS = ("obj", "name", "member", "builder", "scope")
#: Functions that every version of the language has, and that a launch replaces: of its modules, and of its tensors.
_OF_MODULES = "load"
_OF_TENSORS = "__add__"


class Function(Protocol):
    """A function, with the names that it sees."""

    __globals__: dict[str, object]


class Scope(Protocol):
    """What a launch has replaced, to be put back behind it."""

    def set_attr(self, obj: object, name: str, value: object) -> None:
        """Replace a member."""


Patch: TypeAlias = Callable[[Function], Scope]
#: By owner and name: the owner, what stood there at first, and what was put there.
Found: TypeAlias = dict[tuple[int, str], tuple[object, object, object]]


def replace(module: ModuleType) -> None:
    """Make the interpreter patch what is not patched yet, as it did before. A second call changes nothing."""
    original: Patch | None = vars(module).get(_NAME)
    scope: Callable[[], Scope] | None = vars(module).get("_LangPatchScope")
    language = vars(module).get("tl")
    if original is None or scope is None or language is None or replaced.is_replaced(original):
        return
    member, builtin = vars(module).get(_MEMBER), getattr(language.core, "builtin", None)
    if builtin is not None and member is not None and tuple(inspect.signature(member).parameters) == _PARAMETERS:
        replaced.put(module, _MEMBER, _member(module, builtin(lambda **_: None).__code__))
    absent = vars(module).get("_MISSING")
    kept: dict[tuple[int, ...], Found] = {}

    def patch(function: Function) -> Scope:
        core = language.core
        modules = [value for value in function.__globals__.values() if value is language or value is core]
        samples = [getattr(module, _OF_MODULES, None) for module in modules]
        # A module may have stayed patched when a launch ended; the tensors' class never does.
        samples.append(getattr(language.core.tensor, _OF_TENSORS, None))
        if modules and not any(language.core.is_builtin(sample) for sample in samples):
            return scope()
        seen = tuple(map(id, modules))
        if _stands(kept.get(seen, {}), absent):
            return _again(scope(), kept[seen])
        done = original(function)
        kept[seen] = _found(done)
        return done

    replaced.put(module, _NAME, patch)


def _member(module: ModuleType, wrapper: CodeType) -> Callable[..., None]:
    """Triton's own `_patch_attr`, but that a function which `wrapper` is around is called without it.

    All that the wrapper does is to see that there is a `_semantic`.
    """

    def patch_member(obj: object, name: str, member: Any, builder: object, scope: Scope) -> None:  # noqa: ARG001
        inner = member.__wrapped__ if getattr(member, "__code__", None) is wrapper else member

        def call(*args: object, **kwargs: object) -> object:
            kwargs["_semantic"] = module.interpreter_semantic
            return inner(*args, **kwargs)

        scope.set_attr(obj, name, call)

    return patch_member


def _found(done: Scope) -> Found:
    """What a scope has replaced. Of what it replaced twice, what stood there first and what stands there now."""
    found: Found = {}
    for owner, name, before in getattr(done, "_changes", ()):
        found.setdefault((id(owner), name), (owner, before, getattr(owner, name)))
    return found


def _stands(found: Found, absent: object) -> bool:
    """Whether everything is again as it was when it was replaced; `absent` is Triton's word for what was not there."""
    members = found.items()
    return bool(found) and all(getattr(owner, name, absent) is before for (_, name), (owner, before, _) in members)


def _again(scope: Scope, found: Found) -> Scope:
    for (_, name), (owner, _, value) in found.items():
        scope.set_attr(owner, name, value)
    return scope


def restore(module: ModuleType) -> None:
    """Give the interpreter its own functions back."""
    for name in (_NAME, _MEMBER):
        replaced.restore(module, name)
