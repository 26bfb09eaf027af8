"""What Triton's interpreter cannot stand for: exceptions raised within a kernel, and how they are found again."""

from __future__ import annotations

#: What torch and Triton say where something needs a GPU, or a torch that is built for one.
_NO_GPU = (
    "Torch not compiled with CUDA enabled",
    "Tried to instantiate dummy base class",
    "requires CUDA support",
    "Cannot access accelerator device when none is available",
    "0 active drivers",
    "Found no NVIDIA driver",
    "No CUDA GPUs are available",
)


class NotModelledError(Exception):
    """An operation whose result on a GPU kvcheck does not know: what depends on it cannot be judged."""


class NotCompiledError(Exception):
    """A conversion that the arch's compiler refuses, in the compiler's words."""


def unjudged(error: BaseException) -> NotModelledError | NotCompiledError | None:
    """The exception of this module that led to `error`, which the interpreter wraps; None where there is none.

    An operation that the interpreter's builder does not have at all counts as one without a model, and so does what
    torch or Triton does on a GPU alone.
    """
    seen: set[int] = set()
    step: BaseException | None = error
    while step is not None and id(step) not in seen:  # a cause may come from what it causes
        seen.add(id(step))
        if isinstance(step, NotModelledError | NotCompiledError):
            return step
        if isinstance(step, AttributeError) and type(step.obj).__name__ == "InterpreterBuilder":
            return needs_gpu(f"Triton's interpreter has no {step.name}")
        if isinstance(step, RuntimeError | AssertionError) and any(words in str(step) for words in _NO_GPU):
            return needs_gpu(str(step).strip().splitlines()[0].rstrip("."))
        step = step.__cause__
    return None


def needs_gpu(what: str) -> NotModelledError:
    """The exception that says, in one sentence, that only a GPU can tell."""
    return NotModelledError(f"{what}: without a GPU this kernel cannot be judged")
