"""Triton's interpreter without checks whose outcome it throws away. The only place that touches its semantics.

Every sum and product of integers is computed once more in 64 bits and compared with the type's range, for an assertion
that is left out unless the options say `debug`: a fifth of a launch. And operands of one shape are compared number by
number before they are left as they are. `TritonSemantic` is private: on a Triton without it nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol, TypeAlias

from kvcheck.lowering import replaced

_OVERFLOW, _BROADCAST = "binary_op_sanitize_overflow_impl", "broadcast_impl_value"


class Tensor(Protocol):
    """Triton's tensor."""

    type: object


Check: TypeAlias = Callable[[Any, Tensor, Tensor, object], None]
Broadcast: TypeAlias = Callable[[object, Tensor, Tensor], tuple[Tensor, Tensor]]


def replace(module: ModuleType) -> None:
    """Make the interpreter leave those checks out. A second call changes nothing."""
    semantic = _semantic(module)
    for name, kept in ((_OVERFLOW, _overflow), (_BROADCAST, _broadcast)):
        original = vars(semantic).get(name)
        if original is not None and not replaced.is_replaced(original):
            replaced.put(semantic, name, kept(original))


def restore(module: ModuleType) -> None:
    """Give the interpreter its own functions back."""
    for name in (_OVERFLOW, _BROADCAST):
        replaced.restore(_semantic(module), name)


def _semantic(module: ModuleType) -> type:
    """The class that says what the language's operations do; on a Triton without it one without any."""
    return type(vars(module).get("interpreter_semantic"))


def _overflow(original: Check) -> Check:
    def check(self: Any, lhs: Tensor, rhs: Tensor, operation: object) -> None:
        # Where nothing says whether anybody looks at the outcome, somebody may.
        if getattr(self.builder.options, "debug", True):
            original(self, lhs, rhs, operation)

    return check


def _broadcast(original: Broadcast) -> Broadcast:
    def broadcast(self: object, lhs: Tensor, rhs: Tensor) -> tuple[Tensor, Tensor]:
        shape = vars(lhs.type).get("shape")  # which blocks alone have; equal ones share it
        if shape is not None and shape is vars(rhs.type).get("shape"):
            return lhs, rhs
        return original(self, lhs, rhs)

    return broadcast
