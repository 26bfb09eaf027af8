"""libdevice and inline assembly in Triton's interpreter. The only place that touches how it calls what is not Triton.

The interpreter has neither: a kernel that calls `libdevice.rint` ends with advice to add `@triton.jit`, and the
functions of `triton.language.extra.libdevice`, which a compiler replaces by their names, give None. Here they are
called with the interpreter's own builder, which computes those that `kvcheck.lowering.libdevice` models, and says of
all else that it needs a GPU. `InterpreterBuilder`, `InterpretedFunction` and the builtins' last argument (`_semantic`,
before triton 3.4 `_builder`) are private: what is missing is left alone.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.lowering import libdevice, replaced
from kvcheck.lowering.interpreter_errors import needs_gpu

Function: TypeAlias = Callable[..., Any]

#: Where the functions are. Triton loads `cuda` twice: the one of that path is not the one that kernels see.
_EXTRA = "triton.language.extra"
_LIBDEVICE = f"{_EXTRA}.cuda.libdevice"
_MODULES = (_LIBDEVICE, f"{_EXTRA}.cuda", f"{_EXTRA}.cuda.gdc", f"{_EXTRA}.cuda.utils")
#: The one whose functions are names, for which a compiler puts those of CUDA's.
_NAMES = f"{_EXTRA}.libdevice"
#: Orders between launches, which the CPU runs one after the other.
_NOTHING = ("gdc_wait", "gdc_launch_dependents")
#: The interpreter's builtins take one of these.
_CONTEXTS = {"_semantic": "interpreter_semantic", "_builder": "interpreter_builder"}


class Handle(Protocol):
    """The interpreter's tensor."""

    data: npt.NDArray[Any]


def replace(module: ModuleType) -> None:
    """Make the interpreter call functions that are not Triton's. A second call changes nothing."""
    methods = {"create_extern_elementwise": _extern(module), "create_inline_asm": _assembly}
    for name, method in methods.items():
        if name in vars(module.InterpreterBuilder):
            replaced.put(module.InterpreterBuilder, name, method)
    called: dict[Function, Function] = {}
    for owner, name, function in _functions():
        if not replaced.is_replaced(function):
            replaced.put(owner, name, _called(function, module))
        called[replaced.original(function)] = vars(owner)[name]
    rewrite = vars(module.InterpretedFunction).get("rewrite")
    if rewrite is not None and not replaced.is_replaced(rewrite):
        replaced.put(module.InterpretedFunction, "rewrite", _rewrite(rewrite, called))


def restore(module: ModuleType) -> None:
    """Give the interpreter and Triton's modules their own functions back, but not those that kernels have by name."""
    for name in ("create_extern_elementwise", "create_inline_asm"):
        replaced.restore(module.InterpreterBuilder, name)
    replaced.restore(module.InterpretedFunction, "rewrite")
    for owner, name, _ in _functions():
        replaced.restore(owner, name)


def _functions() -> Iterator[tuple[ModuleType, str, FunctionType]]:
    """The functions of the modules that are not Triton's own, each with its module and name."""
    owners: list[ModuleType] = []
    for path in (*_MODULES, _NAMES):
        with contextlib.suppress(ImportError):
            owners.append(importlib.import_module(path))
    seen = vars(importlib.import_module(_EXTRA)).get("cuda")
    for owner in (*owners, *([seen] if isinstance(seen, ModuleType) else [])):
        for name, member in tuple(vars(owner).items()):
            if isinstance(member, FunctionType) and member.__module__.startswith(_EXTRA):
                yield owner, name, member


def _called(function: FunctionType, module: ModuleType) -> Function:
    """The function, called with the interpreter's builder where it is called with none: from a kernel."""
    name = function.__name__
    real = getattr(importlib.import_module(_LIBDEVICE), name, None) if _is_name_only(function) else function
    parameters = () if real is None else inspect.signature(real).parameters
    context = next((each for each in _CONTEXTS if each in parameters), None)

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        if any(kwargs.get(each) is not None for each in _CONTEXTS):
            return function(*args, **kwargs)  # a compiler calls
        if name in _NOTHING:
            return None
        if real is None or context is None or not function.__module__.endswith("libdevice"):
            raise needs_gpu(f"Triton's interpreter does not know {name} of {function.__module__}")
        return replaced.original(real)(*args, **{**kwargs, context: getattr(module, _CONTEXTS[context])})

    return call


def _is_name_only(function: FunctionType) -> bool:
    return function.__module__ == _NAMES


def _rewrite(original: Function, called: dict[Function, Function]) -> Function:
    """A kernel's functions imported by name are replaced where the kernel sees them."""

    def rewrite(self: Any, *args: object) -> object:
        names = self.fn.__globals__
        for name in _mentioned(self.fn.__code__):
            value = names.get(name)
            if isinstance(value, FunctionType) and value in called:
                names[name] = called[value]
        return original(self, *args)

    return rewrite


def _mentioned(code: CodeType) -> Iterator[str]:
    """The names, other than of variables, that a function's code mentions, with the functions inside it."""
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _mentioned(part)


def _extern(module: ModuleType) -> Function:
    def create_extern_elementwise(
        _self: object, _library: str, _path: str, symbol: str, operands: Sequence[Handle], *_: object
    ) -> object:
        function = libdevice.model(symbol)
        if function is None:
            raise needs_gpu(f"kvcheck has no model of libdevice's {symbol}")
        with np.errstate(all="ignore"):
            result = np.asarray(function(*(each.data for each in operands)))
        return module.TensorHandle(result, getattr(module.tl, result.dtype.name))

    return create_extern_elementwise


def _assembly(_self: object, assembly: str, *_: object) -> object:
    raise needs_gpu(f"Triton's interpreter does not know inline assembly ({' '.join(assembly.split())[:60]})")
