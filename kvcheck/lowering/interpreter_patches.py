"""Triton's interpreter without its second patch. The only place that touches how it puts its own functions in.

A launch puts the interpreter's functions in the place of the language's; so does, once more, every call of a device
function in it, which finds nothing left to replace and takes a fifth of the time. `_patch_lang` and `_LangPatchScope`
are private: on a Triton without them nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Protocol, TypeAlias

from kvcheck.lowering import replaced

_NAME = "_patch_lang"
#: Functions that every version of the language has, and that a launch replaces: of its modules, and of its tensors.
_OF_MODULES = "load"
_OF_TENSORS = "__add__"


class Function(Protocol):
    """A function, with the names that it sees."""

    __globals__: dict[str, object]


Patch: TypeAlias = Callable[[Function], object]


def replace(module: ModuleType) -> None:
    """Make the interpreter patch what is not patched yet. A second call changes nothing."""
    original: Patch | None = vars(module).get(_NAME)
    scope: Callable[[], object] | None = vars(module).get("_LangPatchScope")
    language = vars(module).get("tl")
    if original is None or scope is None or language is None or replaced.is_replaced(original):
        return

    def patch(function: Function) -> object:
        modules = [value for value in function.__globals__.values() if value is language or value is language.core]
        samples = [getattr(module, _OF_MODULES, None) for module in modules]
        # A module may have stayed patched when a launch ended; the tensors' class never does.
        samples.append(getattr(language.core.tensor, _OF_TENSORS, None))
        unpatched = any(language.core.is_builtin(sample) for sample in samples)
        return original(function) if unpatched or not modules else scope()

    replaced.put(module, _NAME, patch)


def restore(module: ModuleType) -> None:
    """Give the interpreter its own function back."""
    replaced.restore(module, _NAME)
