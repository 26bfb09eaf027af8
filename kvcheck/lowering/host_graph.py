"""A call's operators of torch and launches of Triton, taken down and made again: a graph where there is no CUDA.

What a CUDA graph keeps this keeps: addresses, and every value that the host has computed. What that forbids raises here
as there: a tensor's value read on the host. What torch's dispatcher does not see (numpy on a tensor's memory) is not
taken down, so whoever replays checks that a first replay does what the call did.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode

from kvcheck.lowering.torch_modes import PlainDispatchMode
from kvcheck.lowering.triton_launches import Watch, watch

#: What a stream that is captured does not permit: it would wait for a value that no replay has computed yet.
_READS = frozenset(
    {"aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero", "aten::masked_select", "aten::nonzero"}
)
#: The same, of tensors on the CPU without an operator.
_READERS = (torch.Tensor.tolist, torch.Tensor.cpu)


class _NoReads(TorchFunctionMode):
    """Raises where values are read by what torch's dispatcher does not see of tensors on the CPU."""

    def __init__(self, launches: Watch) -> None:
        super().__init__()
        self._watch = launches

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        if func in _READERS and not self._watch.inside:
            raise _not_permitted(f"Tensor.{getattr(func, '__name__', func)}")
        return func(*args, **(kwargs or {}))


def say_no_capture() -> None:
    """Have torch say, in this process, that no stream is captured: without a GPU it raises where a launcher asks."""
    torch.cuda.is_current_stream_capturing = lambda: False


def _not_permitted(name: str) -> RuntimeError:
    return RuntimeError(f"{name} reads a tensor's value on the host: not permitted while a graph is captured")


class HostGraph(PlainDispatchMode):
    """The steps of one call. `replay` makes them again, into the very tensors that they made."""

    def __init__(self) -> None:
        """Take down nothing yet."""
        super().__init__()
        self._steps: list[Callable[[], object]] = []
        self._watch = Watch()
        self._thread = 0

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Take down what is called in the block, which is called all the same.

        What reads a tensor's value on the host raises RuntimeError, and whoever asks torch hears of a capture.
        """
        capturing = torch.cuda.is_current_stream_capturing
        torch.cuda.is_current_stream_capturing = lambda: True
        try:
            self._thread = threading.get_ident()
            with watch(self._launched) as self._watch, _NoReads(self._watch), self:
                self._watch.aside = self.aside
                yield
        finally:
            torch.cuda.is_current_stream_capturing = capturing

    def replay(self) -> None:
        """Make the steps again."""
        for step in self._steps:
            step()

    def _launched(self, _kernel: str, _tensors: list[torch.Tensor], again: Callable[[], object], /) -> None:
        if threading.get_ident() == self._thread:  # another thread's stream is not the one that is captured
            self._steps.append(again)

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        named = kwargs or {}
        if self._watch.inside:  # the interpreter's own
            return func(*args, **named)
        name = str(getattr(func, "_schema", func)).partition("(")[0].partition(".")[0]
        if name in _READS or (name == "aten::index" and _by_mask(args[1])):
            raise _not_permitted(name)
        made = func(*args, **named)
        if not (getattr(func, "is_view", False) or name.startswith(("aten::empty", "aten::new_empty", "aten::set_"))):
            self._steps.append(lambda: _into(made, func(*args, **named)))
        return made


def _by_mask(indices: object) -> bool:
    """Whether elements are picked by a mask, which says only when it is read how many they are."""
    tensors = [each for each in indices if isinstance(each, torch.Tensor)] if isinstance(indices, list | tuple) else []
    return any(each.dtype in (torch.bool, torch.uint8) for each in tensors)


def _into(made: object, again: object) -> None:
    """Put what an operator gives now where it gave it before. In place, both are the same tensor."""
    if isinstance(made, torch.Tensor) and isinstance(again, torch.Tensor):
        if made is not again:
            made.copy_(again)
    elif isinstance(made, list | tuple) and isinstance(again, list | tuple):
        for old, new in zip(made, again, strict=True):
            _into(old, new)
