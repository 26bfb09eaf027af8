"""Triton's interpreter with what it derives from a type kept. The only place that touches how it makes its tensors.

For every tensor that a kernel computes the interpreter makes a type, which it names and checks anew, wraps each number
of its shape, and looks for numpy's type in a table that it builds for that: nearly half of a launch. All of it follows
from the type alone, and is kept here with it. Types are compared by their names, though most are the very same.
`_get_np_dtype` is private, as is what types and tensors are made of. Seen to work on triton 3.7 and 3.9; where shapes
are lists, as on 3.2, or tensors have more to them, nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Protocol, TypeAlias

from kvcheck.lowering import replaced

_NUMPY, _NAMED = "_get_np_dtype", "str_to_ty"
#: Where a type carries what follows from it: numpy's type; a tensor's shape and number of elements.
_KEPT_NUMPY, _KEPT_TENSOR = "kvcheck_numpy", "kvcheck_tensor"
#: What a tensor is made of. Where there is more, nothing is kept.
_OF_TENSOR = frozenset({"handle", "shape", "numel", "type", "dtype"})


class Type(Protocol):
    """Any of Triton's types."""

    name: str
    scalar: object


class Tensor(Protocol):
    """Triton's tensor."""

    handle: object
    type: Type
    dtype: object
    shape: Iterable[object]
    numel: object


class Block(Protocol):
    """Triton's type of a block."""

    shape: object


InitTensor: TypeAlias = Callable[[Tensor, object, Type], None]
InitBlock: TypeAlias = Callable[..., None]
Equal: TypeAlias = Callable[[object, object], bool]


def replace(module: ModuleType) -> None:
    """Make the interpreter keep what it derives from types. A second call changes nothing."""
    core, numpy_type = module.tl.core, vars(module).get(_NUMPY)
    if numpy_type is not None and not replaced.is_replaced(numpy_type):
        replaced.put(module, _NUMPY, _numpy_type(numpy_type))
    named = vars(module.tl).get(_NAMED)
    if named is not None and not replaced.is_replaced(named):
        replaced.put(module.tl, _NAMED, _named(named, core.dtype))
    for kind, kept in ((core.tensor, _tensor), (core.block_type, _block_type(core))):
        if not replaced.is_replaced(kind.__init__):
            replaced.put(kind, "__init__", kept(kind.__init__))
    equal = vars(core.dtype).get("__eq__")
    if equal is not None and not replaced.is_replaced(equal):
        replaced.put(core.dtype, "__eq__", _equal(equal))


def restore(module: ModuleType) -> None:
    """Give the interpreter its own functions back."""
    replaced.restore(module, _NUMPY)
    replaced.restore(module.tl, _NAMED)
    for kind in (module.tl.core.tensor, module.tl.core.block_type):
        replaced.restore(kind, "__init__")
    replaced.restore(module.tl.core.dtype, "__eq__")


def _equal(original: Equal) -> Equal:
    def equal(self: object, other: object) -> bool:
        return self is other or original(self, other)

    return equal


def _named(original: Callable[..., object], kind: type) -> Callable[..., object]:
    """A type has a name, and each launch asks for those of all arguments: made once, its tensors have it in common."""
    known: dict[str, object] = {}

    def named(name: object, *constant: object) -> object:
        if type(name) is not str or any(each is not None for each in constant):
            return original(name, *constant)
        found = known.get(name)
        if found is None:
            found = original(name, *constant)
            if isinstance(found, kind):
                known[name] = found
        return found

    return named


def _numpy_type(original: Callable[[Type], object]) -> Callable[[Type], object]:
    def numpy_type(of: Type) -> object:
        kept = vars(of).get(_KEPT_NUMPY)
        if kept is None:
            kept = vars(of)[_KEPT_NUMPY] = original(of)
        return kept

    return numpy_type


def _tensor(original: InitTensor) -> InitTensor:
    def init(self: Tensor, handle: object, type: Type) -> None:  # noqa: A002 - Triton's name
        kept = vars(type).get(_KEPT_TENSOR)
        if kept is not None:
            self.handle, self.type, self.dtype = handle, type, type.scalar
            self.shape, self.numel = kept
            return
        original(self, handle, type)
        if vars(self).keys() == _OF_TENSOR and not isinstance(self.shape, list):  # a list might be changed
            vars(type)[_KEPT_TENSOR] = self.shape, self.numel

    return init


def _block_type(core: ModuleType) -> Callable[[InitBlock], InitBlock]:
    """Equal types of blocks share their attributes, where the name tells what they are blocks of; equal shapes one."""
    named, shapes = (core.dtype, core.pointer_type), (list, tuple, getattr(core, "tuple", tuple))
    known: dict[tuple[object, ...], dict[str, Any]] = {}
    of_sizes: dict[tuple[object, ...], object] = {}
    # By a shape that is another type's already, which is most: `of_sizes` keeps it, so that its id stays its own.
    of_shapes: dict[tuple[int, str, object], dict[str, Any]] = {}

    def kept(original: InitBlock) -> InitBlock:
        def init(self: Block, element_ty: Type, shape: Iterable[object], *more: object) -> None:
            if type(self) is core.block_type and type(element_ty) in named and not more:
                shared = of_shapes.get((id(shape), element_ty.name, getattr(element_ty, "address_space", None)))
                if shared is not None:
                    self.__dict__ = shared
                    return
            sizes = getattr(shape, "values", shape) if type(shape) in shapes else ()
            plain = type(self) is core.block_type and type(element_ty) in named and not more
            if not plain or not sizes or any(type(size) is not int for size in sizes):
                original(self, element_ty, shape, *more)
                return
            key = (element_ty.name, getattr(element_ty, "address_space", None), *sizes)
            shared = known.get(key)
            if shared is not None:
                self.__dict__ = shared
                return
            original(self, element_ty, shape)
            if not isinstance(self.shape, list):
                self.shape = of_sizes.setdefault(key[2:], self.shape)
                known[key] = of_shapes[id(self.shape), key[0], key[1]] = vars(self)

        return init

    return kept
