"""The interpreter looks once for what it replaces: what it computes stays the same."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest
import triton
import triton.language as tl
from sketches.running import judged

from kvcheck.kernels.store import store
from kvcheck.lowering import interpreter_patches
from kvcheck.lowering.interpreter_cast import corrected
from kvcheck.schema import Case


def _private() -> ModuleType:
    return importlib.import_module("triton.runtime.interpreter")


def test_one_launch_looks_and_all_leave_the_language_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many device functions they call."""
    module = _private()
    if not hasattr(module, "_LangPatchScope"):
        pytest.skip(f"triton {triton.__version__} has no scopes of patches, and is left alone")
    calls: list[object] = []
    original = module._patch_lang

    def counted(function: object) -> object:
        calls.append(function)
        return original(function)

    monkeypatch.setattr(module, "_patch_lang", counted)
    load = tl.load
    with corrected("sm_90"):
        assert judged(store, Case(tokens=3)).outcome == "pass"  # of three launches
        names = [getattr(call, "__module__", "") for call in calls]
        assert names[0] == "kvcheck.kernels.store"
        assert len(set(names)) == len(names)  # Triton's own device functions see another part of the language
        assert tl.load is load
    assert module._patch_lang is counted


class _Scope:
    """Triton's, in short."""

    def __init__(self) -> None:
        self._changes: list[tuple[object, str, object]] = []

    def set_attr(self, obj: object, name: str, value: object) -> None:
        self._changes.append((obj, name, getattr(obj, name, _MISSING)))
        setattr(obj, name, value)

    def restore(self) -> None:
        while self._changes:
            owner, name, before = self._changes.pop()
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


_MISSING = object()


def test_what_was_replaced_is_replaced_again_unless_it_has_changed() -> None:
    """Members that were there, one that was not, and one that is replaced twice; behind it all is as before."""
    language = _Language()
    looked: list[object] = []

    def look(function: object) -> _Scope:
        looked.append(function)
        scope = _Scope()
        scope.set_attr(language, "load", "interpreted")
        scope.set_attr(language.tensor, "__add__", "first")
        scope.set_attr(language.tensor, "__add__", "interpreted")
        scope.set_attr(language.tensor, "T", "new")
        return scope

    module = _module(tl=language, _patch_lang=look, _LangPatchScope=_Scope, _MISSING=_MISSING)
    interpreter_patches.replace(module)
    kernel = SimpleNamespace(__globals__={"tl": language})
    before = (language.load, vars(language.tensor).copy())
    for _ in range(3):
        scope = module._patch_lang(kernel)
        assert (language.load, vars(language.tensor)) == ("interpreted", {"__add__": "interpreted", "T": "new"})
        scope.restore()
        assert (language.load, vars(language.tensor)) == before
    assert len(looked) == 1
    language.tensor.T = "somebody's own"
    module._patch_lang(kernel).restore()
    assert len(looked) == 2
    assert language.tensor.T == "somebody's own"
    both = SimpleNamespace(__globals__={"tl": language, "core": language})
    module._patch_lang(both).restore()
    assert looked == [kernel, kernel, both]


def test_a_module_s_members_are_put_back_each() -> None:
    """One that was there, one that is replaced twice, and one that was not; unless somebody has changed one since."""
    inner = ModuleType("inner")
    inner.load, inner.full, inner.mine = "builtin", "builtin", "mine"  # type: ignore[attr-defined]
    language = _Language()
    looked: list[object] = []

    def look(function: object) -> _Scope:
        looked.append(function)
        scope = _Scope()
        for name, value in (("load", "interpreted"), ("full", "first"), ("full", "interpreted"), ("new", "new")):
            scope.set_attr(inner, name, value)
        return scope

    module = _module(tl=language, _patch_lang=look, _LangPatchScope=_Scope, _MISSING=_MISSING)
    interpreter_patches.replace(module)
    kernel = SimpleNamespace(__globals__={"tl": language})
    before = vars(inner).copy()
    patched = {**before, "load": "interpreted", "full": "interpreted", "new": "new"}
    for _ in range(3):
        scope = module._patch_lang(kernel)
        assert vars(inner) == patched
        scope.restore()
        assert vars(inner) == before
    assert len(looked) == 1
    for name, count in (("full", 2), ("new", 3)):
        setattr(inner, name, "somebody's own")
        module._patch_lang(kernel).restore()
        assert len(looked) == count
        assert vars(inner)[name] == "somebody's own"


def test_a_kernel_s_signature_is_kept_with_it() -> None:
    """As Python has it; of a function that is around another, and one that has its own, nothing is."""

    def kernel(x: int, SIZE: tl.constexpr = 4) -> None:  # noqa: ARG001, N803
        raise AssertionError

    @functools.wraps(kernel)
    def around(*args: object) -> None:  # noqa: ARG001
        raise AssertionError

    own = inspect.Signature()

    def with_own() -> None:
        raise AssertionError

    vars(with_own)["__signature__"] = own
    right = inspect.signature(kernel), inspect.getfullargspec(kernel), inspect.getfullargspec(around)
    module = _module(tl=_Language(), _patch_lang=lambda _: "patched", _LangPatchScope=lambda: "nothing")
    interpreter_patches.replace(module)
    for function in (kernel, around, with_own):
        for _ in range(2):
            module._patch_lang(function)
    assert vars(kernel)["__signature__"] == right[0]
    assert "__signature__" not in vars(around)
    assert vars(with_own)["__signature__"] is own
    assert (inspect.signature(around), inspect.getfullargspec(kernel), inspect.getfullargspec(around)) == right


def test_bytes_are_the_same_with_and_without() -> None:
    """Codes and scales, large values and small ones."""
    case = Case(tokens=2, k_values="normal*5", v_values="normal*2^-20")
    with corrected("sm_90"):
        ours = judged(store, case)
    with corrected("sm_90"):
        interpreter_patches.restore(_private())
        theirs = judged(store, case)
    assert ours.digest is not None
    assert (ours.outcome, ours.digest) == (theirs.outcome, theirs.digest)


class _Language:
    """A language whose functions are built in until they are patched."""

    def __init__(self) -> None:
        self.load = "builtin"
        self.tensor = SimpleNamespace(__add__="builtin")
        self.core = self

    @staticmethod
    def is_builtin(member: object) -> bool:
        return member == "builtin"


def _module(**members: object) -> ModuleType:
    module = ModuleType("interpreter")
    vars(module).update(members)
    return module


def test_what_is_patched_in_part_is_patched() -> None:
    """A module without its tensors, tensors without a module, and a function that sees no language."""
    language = _Language()
    module = _module(tl=language, _patch_lang=lambda _: "patched", _LangPatchScope=lambda: "nothing")
    interpreter_patches.replace(module)
    replaced = module._patch_lang
    interpreter_patches.replace(module)
    assert module._patch_lang is replaced
    kernel, blind = (SimpleNamespace(__globals__=seen) for seen in ({"tl": language, "x": 1}, {"x": 1}))
    assert replaced(kernel) == "patched"
    language.load = "interpreted"
    assert replaced(kernel) == "patched"
    language.tensor.__add__ = "interpreted"
    assert replaced(kernel) == "nothing"
    assert replaced(blind) == "patched"
    language.load = "builtin"
    assert replaced(kernel) == "patched"
    interpreter_patches.restore(module)
    interpreter_patches.restore(module)
    assert module._patch_lang(kernel) == "patched"
    assert module._patch_lang is not replaced


def _builtin(function: Callable[..., object]) -> Callable[..., object]:
    """Triton's decorator, in short."""

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> object:
        assert "_semantic" in kwargs
        return function(*args, **kwargs)

    return wrapper


def _patched(**members: object) -> ModuleType:
    """A module whose language has that decorator, with kvcheck's functions in it."""
    language = _Language()
    vars(language)["builtin"] = _builtin
    module = _module(tl=language, _patch_lang=print, _LangPatchScope=_Scope, interpreter_semantic="ours", **members)
    interpreter_patches.replace(module)
    return module


def test_what_stands_in_a_function_s_place_calls_it_at_once() -> None:
    """With the arguments it was called with, and the interpreter's semantic; what else is around it stays around it."""

    def _patch_attr(obj: object, name: str, member: object, builder: object, scope: object) -> None:  # noqa: ARG001
        raise AssertionError

    module = _patched(_patch_attr=_patch_attr)
    calls: list[object] = []

    def add(*args: object, **kwargs: object) -> str:
        calls.append((sys._getframe(1).f_code.co_name, args, kwargs))
        return "sum"

    @functools.wraps(add)
    def outer(*args: object, **kwargs: object) -> object:
        return add("outer", *args, **kwargs)

    owner = SimpleNamespace(plain=_builtin(add), wrapped=outer)
    scope = _Scope()
    for name, member in list(vars(owner).items()):
        module._patch_attr(owner, name, member, None, scope)
    assert owner.plain(1, 2, other=3, _semantic=None) == "sum"
    vars(module)["interpreter_semantic"] = "another's"
    assert owner.wrapped(4) == "sum"
    assert calls == [
        ("call", (1, 2), {"other": 3, "_semantic": "ours"}),
        ("outer", ("outer", 4), {"_semantic": "another's"}),
    ]
    scope.restore()
    assert owner.wrapped is outer
    interpreter_patches.restore(module)
    assert module._patch_attr is _patch_attr


def test_another_way_to_put_a_function_in_place_is_left_alone() -> None:
    """As other versions have it, and where there is none."""

    def _patch_attr(obj: object, name: str, member: object, builder: object) -> None:  # noqa: ARG001
        raise AssertionError

    assert _patched(_patch_attr=_patch_attr)._patch_attr is _patch_attr
    assert not hasattr(_patched(), "_patch_attr")


@pytest.mark.parametrize("missing", ["tl", "_patch_lang", "_LangPatchScope"])
def test_a_triton_without_these_names_is_left_alone(missing: str) -> None:
    """Nothing is put in."""
    members = {"tl": _Language(), "_patch_lang": print, "_LangPatchScope": object}
    module = _module(**{name: value for name, value in members.items() if name != missing})
    interpreter_patches.replace(module)
    assert vars(module).get("_patch_lang") in (print, None)
    interpreter_patches.restore(module)
