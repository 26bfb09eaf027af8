"""Whether a target has put functions of its own in the place of kvcheck's, or of torch's that kvcheck reads memory by.

The kernel's process holds this code too, and Python lets anyone replace it. That is seen here where it is done openly;
a target that means to deceive has other ways. What such a process says of itself is no evidence.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType

import numpy as np
import torch

from kvcheck.run.dict_versions import Versions, members_of

#: Whose functions may stand in kvcheck's modules, beside the standard library's.
_KNOWN = frozenset(
    {"kvcheck", "cuda", "importlib_metadata", "msgspec", "numpy", "torch", "triton", "typer", "typing_extensions"}
)

#: What kvcheck allocates, fills, reads and waits by.
_READ_BY: tuple[tuple[type | ModuleType, tuple[str, ...]], ...] = (
    (torch, ("empty", "from_numpy")),
    (torch.Tensor, ("copy_", "cpu", "data_ptr", "numpy", "set_", "untyped_storage")),
    (torch.cuda, ("synchronize", "current_stream", "stream", "graph", "CUDAGraph")),
    (np, ("array_equal", "flatnonzero", "split", "diff")),
)


#: What kvcheck's modules and classes were when nothing was replaced: one, once this process has looked.
_CLEAN: list[Versions] = []


class TamperedError(Exception):
    """A target has replaced what its case is judged by."""


def remember() -> None:
    """Look once for all forks of this process: where nothing is replaced, they look again only at what has changed."""
    _CLEAN.clear()
    if replaced() is None:
        _CLEAN.append(Versions([sys.modules, *_dictionaries()]))


def replaced() -> str | None:
    """The first function that a target has replaced, by its full name, or None."""
    if not (_CLEAN and _CLEAN[0].unchanged()):
        for name, module in _modules():
            for member, value in _functions(name, vars(module)):
                if _foreign(value):
                    return member
    for owner, names in _READ_BY:
        for name in names:
            if _foreign(getattr(owner, name)):
                return f"{owner.__name__}.{name}"
    return None


def _modules() -> list[tuple[str, ModuleType]]:
    """kvcheck's modules by name, as far as they are loaded."""
    return [
        (name, module)
        for name, module in sorted(sys.modules.items())
        if name.partition(".")[0] == "kvcheck" and isinstance(module, ModuleType)
    ]


def _dictionaries() -> Iterator[dict[str, object]]:
    """What holds the members of kvcheck's modules, and of their own classes."""
    for name, module in _modules():
        yield vars(module)
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == name:
                yield members_of(value)


def _functions(where: str, members: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """A module's functions and classes, and the functions in its own classes, by name."""
    for name, value in list(members.items()):
        if isinstance(value, FunctionType | type):
            yield f"{where}.{name}", value
        if isinstance(value, type) and value.__module__ == where:
            for inner, part in list(vars(value).items()):
                yield f"{where}.{name}.{inner}", part.fget if isinstance(part, property) else part


def _foreign(value: object) -> bool:
    """Whether something is a function or class of nobody that kvcheck knows. A name copied by `wraps` hides nothing."""
    value = getattr(value, "__func__", value)
    if isinstance(value, FunctionType):
        root = str(value.__globals__.get("__name__", ""))
    elif isinstance(value, type):
        root = value.__module__
    else:
        return False
    root = root.partition(".")[0]
    return root not in _KNOWN and root not in sys.stdlib_module_names and not root.startswith("namedtuple_")
