"""Triton's interpreter with its patches kept. The only place that touches how it puts its own functions in.

A launch puts the interpreter's functions in the place of the language's, which it goes through name by name to find
them; the next launch finds the same. So does, once more, every call of a device function, which finds nothing left to
replace. And what it puts there sorts a call's arguments, and calls the language's own wrapper, to do the same again.
`_patch_lang`, `_LangPatchScope` and `_patch_attr` are private: on a Triton without them nothing changes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from operator import is_
from types import CodeType, FunctionType, ModuleType
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
    kept: dict[tuple[int, ...], _Kept] = {}

    def patch(function: Function) -> Scope | _Kept:
        _keep_signature(function)
        core = language.core
        modules = [value for value in function.__globals__.values() if value is language or value is core]
        samples = [getattr(module, _OF_MODULES, None) for module in modules]
        # A module may have stayed patched when a launch ended; the tensors' class never does.
        samples.append(getattr(language.core.tensor, _OF_TENSORS, None))
        if modules and not any(language.core.is_builtin(sample) for sample in samples):
            return scope()
        seen = tuple(map(id, modules))
        known = kept.get(seen)
        if known is not None and known.stands():
            known.put()
            return known
        done = original(function)
        if found := _found(done):
            kept[seen] = _Kept(found, absent)
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


class _Kept:
    """What a launch has replaced, to be put there again, and taken back behind it: a module's members all at once."""

    def __init__(self, found: Found, absent: object) -> None:
        """`absent` is Triton's word for what was not there."""
        self._absent = absent
        self._modules: dict[int, tuple[dict[str, object], dict[str, object], dict[str, object]]] = {}
        self._members: list[tuple[object, str, object, object]] = []
        for (key, name), (owner, before, value) in found.items():
            if isinstance(owner, ModuleType) and before is not absent:
                _, befores, values = self._modules.setdefault(key, (vars(owner), {}, {}))
                befores[name], values[name] = before, value
            else:
                self._members.append((owner, name, before, value))

    def stands(self) -> bool:
        """Whether everything is again as it was when it was replaced."""
        return all(
            all(map(is_, map(members.get, befores), befores.values())) for members, befores, _ in self._modules.values()
        ) and all(getattr(owner, name, self._absent) is before for owner, name, before, _ in self._members)

    def put(self) -> None:
        """Put everything there."""
        for members, _, values in self._modules.values():
            members.update(values)
        for owner, name, _, value in self._members:
            setattr(owner, name, value)

    def restore(self) -> None:
        """Take it back."""
        for members, befores, _ in self._modules.values():
            members.update(befores)
        for owner, name, before, _ in self._members:
            if before is self._absent:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


def _keep_signature(function: object) -> None:
    """Each launch asks for a kernel's signature twice; Python looks for it here before it works it out.

    What is around another function is left alone: Python would no longer look for that one's.
    """
    if isinstance(function, FunctionType) and not vars(function).keys() & {"__signature__", "__wrapped__"}:
        vars(function)["__signature__"] = inspect.signature(function)


def restore(module: ModuleType) -> None:
    """Give the interpreter its own functions back."""
    for name in (_NAME, _MEMBER):
        replaced.restore(module, name)
