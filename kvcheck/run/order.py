"""The order in which cases start: of those that share a compiled kernel the first goes ahead, and the rest wait for it.

Triton keeps what it has compiled in files; cases that start together would all compile the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping

from kvcheck.schema import ITEMSIZE, Case, Placement


class Order:
    """Numbers of cases, handed out one by one; each once, unless it is put back."""

    def __init__(self, numbers: Iterable[int], keys: Mapping[int, Hashable]) -> None:
        """`keys` tells by number what a case's kernels are compiled for; a case without one never waits."""
        self._ready: deque[int] = deque()
        self._keys = keys
        self._held: dict[Hashable, list[int]] = {}
        for number in numbers:
            if number not in keys:
                self._ready.append(number)
            elif keys[number] in self._held:
                self._held[keys[number]].append(number)
            else:
                self._held[keys[number]] = []
                self._ready.append(number)

    def __bool__(self) -> bool:
        """Whether any case has not been handed out."""
        return bool(self._ready) or any(self._held.values())

    def pop(self) -> int | None:
        """The next case that may start now, or None where all that are left wait for another to end."""
        return self._ready.popleft() if self._ready else None

    def ended(self, number: int) -> None:
        """A case has ended, however it did: what it has compiled, or failed to, the others need not wait for."""
        self._ready.extend(self._held.pop(self._keys.get(number), ()))


def kernel_key(case: Case, placement: Placement) -> Hashable:
    """What a kernel that is launched on these tensors is compiled for, as far as Triton tells integers apart.

    Rows' dims count in full, since kernels take them as constants; of the number of rows, of strides and of offsets
    only whether they are 1 and whether 16 divides them. Finer than a given kernel's own key, never coarser where the
    kernel takes strides and dims: two cases that compile alike may have two keys, and then compile side by side.
    """
    tensors = tuple(
        (
            tensor.name,
            tensor.dtype,
            tensor.dims[1:],
            _kind(tensor.dims[0]) if tensor.dims else None,
            tuple(_kind(stride) for stride in tensor.strides),
            tensor.offset * ITEMSIZE[tensor.dtype] % 16 == 0,
        )
        for tensor in placement.tensors
    )
    return (case.dtype, case.layout == "exact", tensors)


def _kind(value: int) -> int:
    return 1 if value == 1 else 16 if value % 16 == 0 else 0
