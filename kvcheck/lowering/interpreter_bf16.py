"""bf16 in Triton's interpreter. The only place that touches how the interpreter computes with it.

The interpreter holds bf16 as its bits in uint16, and on triton 3.2 to 3.9 adds, multiplies and compares those as
integers; integers and fp64 become bf16 by their bits; before 3.9 it has no bf16 constants. On a GPU each
operation is the fp32 one, rounded to nearest even: rounding twice is the same as once, since fp32 has more than twice
bf16's digits. So it is here. `InterpreterBuilder` and `TensorHandle` are private; the interpreter's self-test says
whether this worked.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.formats.cast import bf16_patterns
from kvcheck.lowering import replaced

Bits: TypeAlias = npt.NDArray[np.uint16]
Method: TypeAlias = Callable[..., "Handle"]

#: The methods through which all conversions and all arithmetic go.
METHODS = ("binary_op", "unary_op", "cast_impl")

#: The method that makes a constant, which older versions lack.
_CONSTANT = "get_bf16"


class Scalar(Protocol):
    """Triton's scalar type."""

    name: str


class Type(Protocol):
    """Triton's type of a tensor."""

    scalar: Scalar


class Handle(Protocol):
    """The interpreter's tensor."""

    data: npt.NDArray[np.generic]
    dtype: Type


def widened(data: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
    """bf16 bits as the fp32 values they stand for, in the same shape."""
    patterns: npt.NDArray[np.uint32] = data.astype(np.uint32) << np.uint32(16)
    return patterns.view(np.float32)


def narrowed(data: npt.NDArray[np.generic]) -> Bits:
    """fp32 values as bf16 bits, to nearest even, in the same shape."""
    patterns = np.ascontiguousarray(data, dtype=np.float32).view(np.uint32)
    upper: npt.NDArray[np.uint32] = bf16_patterns(patterns) >> np.uint32(16)
    return upper.astype(np.uint16).reshape(np.shape(data))


def replace(module: ModuleType) -> None:
    """Make the interpreter compute with bf16 as GPUs do. A second call changes nothing."""
    wrappers = {"binary_op": _binary, "unary_op": _unary, "cast_impl": _cast}
    for name, wrapper in wrappers.items():
        method = vars(module.InterpreterBuilder).get(name)
        if method is not None:
            replaced.put(module.InterpreterBuilder, name, wrapper(replaced.original(method), module))
    if not hasattr(module.InterpreterBuilder, _CONSTANT):
        setattr(module.InterpreterBuilder, _CONSTANT, _constant(module))


def restore(module: ModuleType) -> None:
    """Give the interpreter its own methods back."""
    for name in METHODS:
        replaced.restore(module.InterpreterBuilder, name)
    if hasattr(vars(module.InterpreterBuilder).get(_CONSTANT), "kvcheck_added"):
        delattr(module.InterpreterBuilder, _CONSTANT)


def _constant(module: ModuleType) -> Method:
    def get_bf16(_self: object, value: float) -> Handle:
        made: Handle = module.TensorHandle(narrowed(np.array([value], dtype=np.float32)), module.tl.bfloat16)
        return made

    setattr(get_bf16, "kvcheck_added", True)  # noqa: B010
    return get_bf16


def _is_bf16(handle: Handle) -> bool:
    # The result of a comparison is held as bools under the type of what was compared.
    return handle.dtype.scalar.name == "bf16" and handle.data.dtype == np.uint16


def _binary(original: Method, module: ModuleType) -> Method:
    def binary_op(self: object, lhs: Handle, rhs: Handle, op: Callable[..., object]) -> Handle:
        if not (_is_bf16(lhs) and _is_bf16(rhs)):
            return original(self, lhs, rhs, op)
        with np.errstate(all="ignore"):
            wide = original(self, _wide(module, lhs), _wide(module, rhs), op)
        return wide if wide.data.dtype == np.bool_ else _narrow(module, wide)

    return binary_op


def _unary(original: Method, module: ModuleType) -> Method:
    def unary_op(self: object, arg: Handle, op: Callable[..., object]) -> Handle:
        if not _is_bf16(arg):
            return original(self, arg, op)
        with np.errstate(all="ignore"):
            return _narrow(module, original(self, _wide(module, arg), op))

    return unary_op


def _cast(original: Method, module: ModuleType) -> Method:
    def cast_impl(self: object, src: Handle, dst_type: Type) -> Handle:
        # From bf16 to other types than fp32 Triton itself goes by way of fp32.
        if dst_type.scalar.name == "bf16" and src.dtype.scalar.name not in ("bf16", "fp32"):
            return _narrow(module, original(self, src, module.tl.float32))
        return original(self, src, dst_type)

    return cast_impl


def _wide(module: ModuleType, handle: Handle) -> Handle:
    made: Handle = module.TensorHandle(widened(handle.data), module.tl.float32)
    return made


def _narrow(module: ModuleType, handle: Handle) -> Handle:
    made: Handle = module.TensorHandle(narrowed(handle.data), module.tl.bfloat16)
    return made
