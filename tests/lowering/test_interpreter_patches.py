"""The interpreter puts its functions in once a launch: what it computes stays the same."""

from __future__ import annotations

import importlib
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


def test_a_launch_patches_once_and_leaves_the_language_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many device functions it calls; the next launch patches again."""
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
        assert judged(store, Case(tokens=3)).outcome == "pass"
        names = [getattr(call, "__module__", "") for call in calls]
        assert names.count("kvcheck.kernels.store") == 3  # one a launch
        assert tl.load is load
    assert module._patch_lang is counted


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


@pytest.mark.parametrize("missing", ["tl", "_patch_lang", "_LangPatchScope"])
def test_a_triton_without_these_names_is_left_alone(missing: str) -> None:
    """Nothing is put in."""
    members = {"tl": _Language(), "_patch_lang": print, "_LangPatchScope": object}
    module = _module(**{name: value for name, value in members.items() if name != missing})
    interpreter_patches.replace(module)
    assert vars(module).get("_patch_lang") in (print, None)
    interpreter_patches.restore(module)
