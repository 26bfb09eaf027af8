"""What a target does with the tensors it is handed: copies it makes, and what its launches receive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import torch

from kvcheck.addresses import extent
from kvcheck.lowering.torch_modes import PlainDispatchMode
from kvcheck.lowering.triton_launches import Watch
from kvcheck.memory.arena import Memory
from kvcheck.schema import Copy, Placement, Received

#: aten operators that leave their first tensor argument's values in other memory.
COPIES = frozenset({"aten::clone", "aten::_to_copy", "aten::copy_", "aten::index", "aten::index_select", "aten::cat"})


class Witness(PlainDispatchMode):
    """Counts copies of placed tensors that are made outside a Triton launch, and records what launches receive.

    What a custom operator does inside itself stays unseen.
    """

    def __init__(self, memory: Memory, placement: Placement) -> None:
        """Watch the tensors of `placement` in `memory`."""
        super().__init__()
        self.watch: Watch | None = None
        self._spans = _spans(memory, placement)
        self._copies: Counter[tuple[str, str]] = Counter()
        self._received: list[Received] = []

    def launched(self, kernel: str, tensors: list[torch.Tensor], again: object = None, /) -> None:
        """Note a launch's tensor arguments."""
        del again
        for tensor in tensors:
            self._received.append(Received(kernel, self._owner(tensor), tuple(tensor.stride())))

    def copies(self) -> tuple[Copy, ...]:
        """Copies by tensor and operator."""
        return tuple(Copy(name, operator, count) for (name, operator), count in sorted(self._copies.items()))

    def received(self) -> tuple[Received, ...]:
        """What the launches received, in order, each once."""
        return tuple(dict.fromkeys(self._received))

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        name = str(getattr(func, "_schema", func)).partition("(")[0].partition(".")[0]
        inside = self.watch is not None and self.watch.inside > 0
        if name in COPIES and not inside:
            for source in _tensors(args[1:] if name == "aten::copy_" else args):
                owner = self._owner(source)
                if owner:
                    self._copies[owner, name] += 1
        return func(*args, **(kwargs or {}))

    def _owner(self, tensor: torch.Tensor) -> str:
        """The placed tensor whose memory a tensor begins in, or an empty string."""
        if tensor.numel() == 0:
            return ""
        address = tensor.data_ptr()
        inside = [(stop - start, name) for name, start, stop in self._spans if start <= address < stop]
        exact = [name for name, start, _ in self._spans if start == address]
        if exact:
            return exact[0]
        return min(inside)[1] if inside else ""


def _spans(memory: Memory, placement: Placement) -> list[tuple[str, int, int]]:
    bases = [begin for begin, _ in memory.span()]
    found = []
    for tensor in placement.tensors:
        start, stop = extent(tensor)
        if start < stop:
            found.append((tensor.name, bases[tensor.allocation] + start, bases[tensor.allocation] + stop))
    return found


def _tensors(args: Sequence[object]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in args:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += [item for item in value if isinstance(item, torch.Tensor)]
    return found
