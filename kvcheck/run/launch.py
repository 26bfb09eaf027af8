"""One call of a target: on a stream of the case's own, watched where that is asked for, and its refusal told apart."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch

from kvcheck.api import Target
from kvcheck.errors import Refused
from kvcheck.lowering.triton_launches import watch
from kvcheck.run.witness import Witness


class RefusedError(Exception):
    """The target refused, with this sentence, and changed nothing."""


def launch(call: Callable[[], None], target: Target, stream: torch.cuda.Stream | None) -> str | None:
    """Call on the case's own stream and wait; without a GPU there is none. A refusal's sentence, or None."""
    try:
        if stream is None:
            call()
        else:
            stream.wait_stream(torch.cuda.current_stream(stream.device))
            with torch.cuda.stream(stream):
                call()
            torch.cuda.synchronize(stream.device)
    except Exception as error:
        if _refuses(error, target):
            if stream is not None:
                torch.cuda.synchronize(stream.device)
            return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise
    return None


def _refuses(error: Exception, target: Target) -> bool:
    """Whether an exception is a refusal: kvcheck's own, or one the decorator lists, subclasses included."""
    kinds = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
    return isinstance(error, Refused) or any(name in target.refuses for name in kinds)


def refused(sentence: str, number: int, *, changed: bool) -> None:
    """Raise RefusedError; or RuntimeError, a crash, for a refusal that comes too late to be one."""
    if number > 1 or changed:
        raise RuntimeError(f"refused in launch {number}, after it had stored something: {sentence}")
    raise RefusedError(sentence)


@contextlib.contextmanager
def witnessed(witness: Witness, *, on: bool) -> Iterator[None]:
    """Have `witness` see what is called in the block, where it is `on`."""
    if not on:
        yield
        return
    with watch(witness.launched) as state:
        witness.watch, state.aside = state, witness.aside  # it has no business with what a launch does inside
        with witness:
            yield
