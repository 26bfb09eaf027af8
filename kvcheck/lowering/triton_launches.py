"""Seeing what Triton's launches receive. The only place that touches how Triton starts a kernel.

`JITFunction.run` and `InterpretedFunction.run` are private. They were seen to be what every launch passes through on
triton 3.6.0, 3.7.1 and 3.9.0; where a version has other names nothing is recorded, and every launch then counts as
having received the tensors that the target was handed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import torch

from kvcheck.lowering.triton_key import remember_triton_key


class Listener(Protocol):
    """Called with a kernel's name, its tensor arguments and what launches it again, before the launch."""

    def __call__(self, kernel: str, tensors: list[torch.Tensor], again: Callable[[], object], /) -> None:
        """Take note of one launch."""


@dataclass
class Watch:
    """The launches seen, and whether one is under way (the interpreter copies storages during it)."""

    inside: int = 0
    kernels: list[str] = field(default_factory=list)
    aside: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    """Put around each launch."""


@contextlib.contextmanager
def watch(listener: Listener) -> Iterator[Watch]:
    """Call `listener` before every Triton launch made in the block."""
    state = Watch()
    classes = _classes()
    originals: list[tuple[type, Callable[..., object]]] = []
    for kind in classes:
        original = kind.__dict__.get("run")
        if callable(original):
            originals.append((kind, original))
            setattr(kind, "run", _wrapped(original, listener, state))  # noqa: B010 - a class picked at run time
    try:
        yield state
    finally:
        for kind, original in originals:
            setattr(kind, "run", original)  # noqa: B010


def _classes() -> list[type]:
    """The classes whose `run` starts a kernel, as far as this Triton has them."""
    found: list[type] = []
    with contextlib.suppress(ImportError):
        from triton.runtime.jit import JITFunction  # noqa: PLC0415 - private, and not in every version

        found.append(JITFunction)
    with contextlib.suppress(ImportError):
        from triton.runtime.interpreter import InterpretedFunction  # noqa: PLC0415

        found.append(InterpretedFunction)
    return found


def _wrapped(original: Callable[..., object], listener: Listener, state: Watch) -> Callable[..., object]:
    def run(self: object, *args: object, **kwargs: object) -> object:
        name = getattr(getattr(self, "fn", None), "__name__", type(self).__name__)
        values = [*args, *kwargs.values()]
        if not kwargs.get("warmup", False):
            state.kernels.append(name)
            tensors = [value for value in values if isinstance(value, torch.Tensor)]
            listener(name, tensors, lambda: original(self, *args, **kwargs))
        state.inside += 1
        try:
            with state.aside():
                return original(self, *args, **kwargs)
        finally:
            state.inside -= 1

    return run


def warm(*, interpreted: bool) -> None:
    """Import and compute, before a fork, what the first launch of a process would: half a second that needs no GPU."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        if interpreted:
            import triton.runtime.interpreter  # noqa: PLC0415
        else:
            from triton.runtime import cache  # noqa: PLC0415

            remember_triton_key()
            key = getattr(cache, "triton_key", None)
            if key is None:
                from triton.compiler import compiler  # noqa: PLC0415

                key = getattr(compiler, "triton_key", None)
            if callable(key):
                key()
            import triton.experimental.gluon  # noqa: F401, PLC0415
