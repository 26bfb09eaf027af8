"""Scalars of Triton's interpreter as Python integers. The only place that touches how the interpreter converts them.

Before triton 3.7 it converts a scalar, which is an array of one element, by `int(array)`, which numpy 2.4 refuses:
every kernel with a loop bound would crash. `_patch_lang_tensor` is private; the interpreter's self-test says whether
this worked.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kvcheck.lowering import replaced

_NAME = "_patch_lang_tensor"


class Handle(Protocol):
    """The interpreter's data."""

    data: npt.NDArray[np.generic]


class Tensor(Protocol):
    """Triton's tensor, of one element."""

    handle: Handle


def replace(module: ModuleType) -> None:
    """Make the interpreter convert its scalars under any numpy. A second call changes nothing."""
    original: Callable[..., object] | None = vars(module).get(_NAME)
    if original is None or replaced.is_replaced(original):
        return

    def patch(tensor: type, *scope: object) -> None:
        original(tensor, *scope)
        setattr(tensor, "__index__", _index)  # noqa: B010 - a class of another library

    replaced.put(module, _NAME, patch)


def restore(module: ModuleType) -> None:
    """Give the interpreter its own function back."""
    replaced.restore(module, _NAME)


def _index(self: Tensor) -> int:
    return int(self.handle.data.item())
