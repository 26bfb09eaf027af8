"""Triton's interpreter, its loads, stores and atomics shown to a watcher. The only place that touches how it does them.

`triton.runtime.interpreter._interpreter` (the native loads and stores), `_implicit_cvt` (what makes a pointer of a
tensor argument), `InterpretedFunction.run` and `interpreter_builder.grid_idx` are private. They were seen to be what
every access passes through on triton 3.6.0, 3.7.1 and 3.9.0. On another version they are tried likewise, and the
self-test (`kvcheck.sanitizer.shadow.probe`) says whether it worked. `InterpreterBuilder.create_addptr` says where a
pointer was computed; a version without it leaves that unsaid.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from kvcheck.sanitizer.shadow.findings import Asked, Grid, Line
from kvcheck.sanitizer.shadow.pointers import Pointers, View, tagged
from kvcheck.sanitizer.shadow.where import innermost

Array: TypeAlias = npt.NDArray[np.generic]
Mask: TypeAlias = npt.NDArray[np.bool_]


class Watcher(Protocol):
    """Who is shown what a kernel does."""

    def launched(self, kernel: str, /) -> None:
        """A kernel starts. Its tensor arguments follow, each once."""

    def received(self, view: View, /) -> int:
        """A tensor argument: the number for its pointers to carry, from 1."""

    def accessed(self, access: str, pointers: Pointers, size: int, asked: Asked, /) -> tuple[Pointers, Mask | None]:
        """One `read`, `write` or `atomic`, all active lanes of a program: `size` bytes at each pointer.

        The addresses, and the lanes that may be performed; None for all of them.
        """


@contextlib.contextmanager
def shown(watcher: Watcher) -> Iterator[None]:
    """Show `watcher` everything that kernels do within the block.

    Raises ImportError or AttributeError where this Triton has no such internals.
    """
    module = importlib.import_module("triton.runtime.interpreter")
    native, convert, run = module._interpreter, module._implicit_cvt, module.InterpretedFunction.run  # noqa: SLF001
    names: dict[int, list[str]] = {}
    builder = module.InterpreterBuilder
    add = vars(builder).get("create_addptr")
    made = _Made(module)
    setattr(module, "_interpreter", _Native(native, watcher, made))  # noqa: B010 - private names, set on purpose
    setattr(module, "_implicit_cvt", _numbered(convert, watcher, names))  # noqa: B010
    setattr(module.InterpretedFunction, "run", _run(run, watcher, names))  # noqa: B010
    if add is not None:
        setattr(builder, "create_addptr", made.noting(add))  # noqa: B010
    try:
        yield
    finally:
        if add is not None:
            setattr(builder, "create_addptr", add)  # noqa: B010
        setattr(module, "_interpreter", native)  # noqa: B010
        setattr(module, "_implicit_cvt", convert)  # noqa: B010
        setattr(module.InterpretedFunction, "run", run)  # noqa: B010


class _Native:
    """Stands for the native module: everything is its own but loads, stores and atomics."""

    def __init__(self, native: ModuleType, watcher: Watcher, made: _Made) -> None:
        self._native = native
        self._watcher = watcher
        self._made = made

    def __getattr__(self, name: str) -> object:
        return getattr(self._native, name)

    def load(self, pointers: Pointers, mask: Mask, other: Array, dtype: np.dtype[np.generic]) -> Array:
        """Load the lanes that the watcher permits; the others are zero."""
        addresses, refused = self._shown("read", pointers, mask, np.dtype(dtype).itemsize)
        if refused is not None:
            mask, other = mask & ~refused, np.where(refused, other.dtype.type(0), other)
        loaded: Array = self._native.load(addresses, mask, other, dtype)
        return loaded

    def store(self, pointers: Pointers, value: Array, mask: Mask) -> object:
        """Store the lanes that the watcher permits."""
        addresses, refused = self._shown("write", pointers, mask, value.dtype.itemsize)
        return self._native.store(addresses, value, mask if refused is None else mask & ~refused)

    def atomic_rmw(self, operation: object, pointers: Pointers, value: Array, mask: Mask, order: object) -> Array:
        """Perform the lanes that the watcher permits."""
        addresses, refused = self._shown("atomic", pointers, mask, value.dtype.itemsize)
        allowed = mask if refused is None else mask & ~refused
        found: Array = self._native.atomic_rmw(operation, addresses, value, allowed, order)
        return found if refused is None else np.where(refused, found.dtype.type(0), found)

    def atomic_cas(self, pointers: Pointers, expected: Array, value: Array, order: object) -> Array:
        """Perform the lanes that the watcher permits; the others are zero."""
        every = np.ones(pointers.shape, np.bool_)
        addresses, refused = self._shown("atomic", pointers, every, value.dtype.itemsize)
        if refused is None:
            whole: Array = self._native.atomic_cas(addresses, expected, value, order)
            return whole
        found = np.zeros(pointers.shape, value.dtype)
        kept = ~refused
        if kept.any():
            found[kept] = self._native.atomic_cas(addresses[kept], expected[kept], value[kept], order)
        return found

    def _shown(self, access: str, pointers: Pointers, mask: Mask, size: int) -> tuple[Pointers, Mask | None]:
        """The addresses to hand on, zero where the mask leaves a lane out, and the lanes that are refused, if any."""
        whole = bool(mask.all())
        active = pointers.reshape(-1) if whole else pointers[mask]
        if not active.size:
            return np.zeros_like(pointers), None
        asked = Asked(self._made.program, lambda: self._made.line(pointers))
        found, permitted = self._watcher.accessed(access, active, size, asked)
        if whole:
            addresses = found.reshape(pointers.shape)
        else:
            addresses = np.zeros_like(pointers)
            addresses[mask] = found
        if permitted is None:
            return addresses, None
        refused = np.zeros(pointers.shape, np.bool_)
        refused[mask] = ~permitted
        return addresses, refused


class _Made:
    """Which line computed a pointer of the program under way, and which program that is."""

    def __init__(self, module: ModuleType) -> None:
        self._builder = module.interpreter_builder
        self._under_way: object = None
        self._lines: dict[int, tuple[object, Line | None]] = {}

    def program(self) -> Grid:
        """The program's index."""
        x, y, z = self._builder.grid_idx
        return int(x), int(y), int(z)

    def noting(self, original: Callable[..., object]) -> Callable[..., object]:
        """`create_addptr`, whose results are remembered with their line until the next program."""

        def create_addptr(builder: object, pointer: object, offset: object) -> object:
            made = original(builder, pointer, offset)
            if self._builder.grid_idx is not self._under_way:
                self._under_way = self._builder.grid_idx
                self._lines.clear()
            data = made.data  # type: ignore[attr-defined] # the interpreter's handle
            self._lines[id(data)] = (data, innermost(is_launch))  # kept alive, so that its id stays its own
            return made

        return create_addptr

    def line(self, pointers: Pointers) -> Line | None:
        """Where these pointers, or the ones that they are a view of, were computed; None where that is not known."""
        for array in (pointers, pointers.base):
            known = self._lines.get(id(array))
            if known is not None and known[0] is array:
                return known[1]
        return None


def _numbered(
    original: Callable[[object], object], watcher: Watcher, names: dict[int, list[str]]
) -> Callable[[object], object]:
    """`_implicit_cvt`, whose pointers carry their argument's number."""

    def convert(argument: object) -> object:
        made = original(argument)
        if isinstance(argument, tuple) or not hasattr(argument, "data_ptr"):
            return made
        view = _view(argument, names)
        if view is None:  # not torch's: its pointer stays as it is, and may reach what kvcheck owns
            return made
        handle = made.handle  # type: ignore[attr-defined] # triton's tensor
        handle.data = np.full_like(handle.data, np.uint64(tagged(view.address, watcher.received(view))))
        return made

    return convert


def _view(argument: object, names: dict[int, list[str]]) -> View | None:
    tensor = getattr(argument, "base", None)  # what triton.reinterpret made
    tensor = argument if tensor is None else tensor
    if not isinstance(tensor, torch.Tensor):
        return None
    storage = tensor.untyped_storage()
    address = tensor.data_ptr() or storage.data_ptr()  # of an empty tensor torch says 0
    called = names.get(tensor.data_ptr(), [])
    memory = (storage.data_ptr(), storage.data_ptr() + storage.nbytes())
    name = called.pop(0) if called else ""
    return View(name, address, tuple(tensor.shape), tuple(tensor.stride()), tensor.element_size(), memory)


def _run(original: Callable[..., object], watcher: Watcher, names: dict[int, list[str]]) -> Callable[..., object]:
    """`InterpretedFunction.run`, which says which kernel starts, and how its arguments are called."""

    def run(self: object, *args: object, **kwargs: object) -> object:
        function = getattr(self, "fn", None)
        if not kwargs.get("warmup", False):
            names.clear()
            for name, value in _called(function, args, kwargs):
                names.setdefault(value.data_ptr(), []).append(name)
            watcher.launched(getattr(function, "__name__", type(self).__name__))
        return original(self, *args, **kwargs)

    return run


def _called(
    function: object, args: tuple[object, ...], kwargs: dict[str, object]
) -> Iterator[tuple[str, torch.Tensor]]:
    """A launch's tensors by their parameters' names."""
    parameters = list(inspect.signature(function).parameters) if callable(function) else []
    for name, value in [*zip(parameters, args, strict=False), *kwargs.items()]:
        for leaf in value if isinstance(value, tuple) else (value,):
            base = leaf if isinstance(leaf, torch.Tensor) else getattr(leaf, "base", None)
            if isinstance(base, torch.Tensor):
                yield name, base


def is_launch(code: CodeType) -> bool:
    """Whether a frame of this code is the launch that a kernel's frames lie in."""
    return code.co_filename == __file__ and code.co_name == "run"
