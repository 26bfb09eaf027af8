"""What the interpreter derives from a type is kept with it: what it computes stays the same."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import pytest
import triton.language as tl
from sketches.running import judged
from triton.language import core

from kvcheck.kernels.store import store
from kvcheck.lowering import interpreter_types, replaced
from kvcheck.lowering.interpreter_cast import corrected
from kvcheck.schema import Case


def _private() -> ModuleType:
    return importlib.import_module("triton.runtime.interpreter")


@pytest.mark.parametrize(
    "case",
    [
        Case(tokens=2, k_values="normal*5", v_values="normal*2^-20"),
        Case(tokens=3, heads=2, head_dim=80, dtype="fp16", k_view="qkv"),
        Case(tokens=2, heads=1, head_dim=64, dtype="fp32", slot_dtype="int32"),
    ],
    ids=str,
)
def test_bytes_are_the_same_with_and_without(case: Case) -> None:
    """Codes and scales of every source dtype."""
    with corrected("sm_90"):
        ours = judged(store, case)
    with corrected("sm_90"):
        interpreter_types.restore(_private())
        theirs = judged(store, case)
    assert ours.digest is not None
    assert (ours.outcome, ours.digest) == (theirs.outcome, theirs.digest)


def test_own_functions_are_given_back() -> None:
    """Behind the block types and tensors are made by Triton alone; a second replacement changes nothing."""
    module = _private()
    owners = (
        (core.tensor, "__init__"), (core.block_type, "__init__"), (core.dtype, "__eq__"), (module, "_get_np_dtype"),
        (tl, "str_to_ty"),
    )  # fmt: skip
    before = [vars(owner)[name] for owner, name in owners]
    with corrected("sm_90"):
        inside = [vars(owner)[name] for owner, name in owners]
        interpreter_types.replace(module)
        assert [vars(owner)[name] for owner, name in owners] == inside
        assert all(map(replaced.is_replaced, inside))
    assert [vars(owner)[name] for owner, name in owners] == before
    assert core.block_type(tl.int32, [4]).name == str(core.block_type(tl.int32, [4]))


def _shares() -> bool:
    """Whether this Triton's shapes cannot be changed: before 3.3 they were lists, and nothing is shared."""
    return not isinstance(core.block_type(tl.int32, [4]).shape, list)


def _type(element: core.dtype, *shape: object) -> core.block_type:
    return core.block_type(element, list(shape))


def test_equal_types_are_made_once_and_unlike_ones_are_not_mixed_up() -> None:
    """Elements, address spaces, constness and shapes tell types apart; numbers wrapped by Triton are taken as such."""
    with corrected("sm_90"):
        one, other = _type(tl.int32, 4, 8), core.block_type(tl.int32, (4, 8))
        assert one == other
        assert (vars(one) is vars(other)) == _shares()
        pointers = [core.pointer_type(tl.int32), core.pointer_type(tl.int32, 3), core.pointer_type(tl.int32, 1, True)]
        kinds = [one, _type(tl.int32, 8, 4), _type(tl.int32, 32), _type(tl.uint32, 4, 8)]
        kinds += [_type(pointer, 4, 8) for pointer in pointers]
        for number, kind in enumerate(kinds):
            assert [other == kind for other in kinds] == [at == number for at in range(len(kinds))]
            assert kind.scalar == (tl.int32 if number < 3 else tl.uint32 if number == 3 else pointers[number - 4])
        assert _type(tl.int32, tl.constexpr(4), 8) == one
        with pytest.raises(ValueError, match="power of 2"):
            _type(tl.int32, 3)
        with pytest.raises(ValueError, match="power of 2"):
            _type(tl.int32, 3)
        with pytest.raises(TypeError):
            core.block_type(tl.int32, [])


def test_blocks_of_one_shape_share_it_and_types_are_equal_by_name() -> None:
    """Whatever they are blocks of; a type made anew is equal to the one that Triton has."""
    with corrected("sm_90"):
        shapes = [_type(element, 4, 8).shape for element in (tl.int32, tl.float32, core.pointer_type(tl.int8))]
        assert all((shape is shapes[0]) == _shares() for shape in shapes[1:])
        assert _type(tl.int32, 8, 4).shape is not shapes[0]
        assert core.dtype("int32") == tl.int32
        assert core.dtype("int32") != tl.uint32
        assert tl.int32 != "int32"
        assert hash(core.dtype("int32")) == hash(tl.int32)


def test_a_tensor_has_the_shape_and_type_of_its_type() -> None:
    """The first of a type and those behind it; a scalar too. The handle is each one's own."""
    with corrected("sm_90"):
        for kind, shape in ((_type(tl.bfloat16, 2, 16), [2, 16]), (tl.float32, [])):
            for handle in ("first", "second", "third"):
                tensor = core.tensor(handle, kind)
                assert tensor.handle == handle
                assert tensor.type is kind
                assert tensor.dtype is kind.scalar
                assert [int(size.value) for size in tensor.shape] == shape
                assert int(tensor.numel.value) == (32 if shape else 1)


@pytest.mark.parametrize("dtype", [tl.int1, tl.uint8, tl.bfloat16, tl.float8e4nv, tl.int64])
def test_numpys_type_is_that_of_the_interpreter(dtype: core.dtype) -> None:
    """Asked for once and again, of an element and a block."""
    right = [_private()._get_np_dtype(kind) for kind in (dtype, core.block_type(dtype, [4]))]
    with corrected("sm_90"):
        for _ in range(2):
            assert [_private()._get_np_dtype(kind) for kind in (dtype, core.block_type(dtype, [4]))] == right


class _Dtype:
    def __init__(self, name: str) -> None:
        self.name, self.scalar = name, self


class _Block:
    def __init__(self, element_ty: _Dtype, shape: list[int]) -> None:
        self.element_ty, self.shape, self.name, self.scalar = element_ty, list(shape), "block", element_ty


class _Layout(_Block):
    """As Gluon has: a block's type with more to it."""


class _Tensor:
    def __init__(self, handle: object, type: _Block) -> None:  # noqa: A002
        self.handle, self.type, self.dtype, self.numel = handle, type, type.scalar, 1
        self.shape: list[int] | tuple[int, ...] = [*type.shape]


class _More(_Tensor):
    def __init__(self, handle: object, type: _Block) -> None:  # noqa: A002
        super().__init__(handle, type)
        self.shape, self.more = (1,), 1


def _module(tensor: type) -> ModuleType:
    module, language, inner = ModuleType("interpreter"), ModuleType("language"), ModuleType("core")
    vars(inner).update(dtype=_Dtype, pointer_type=type("_Pointer", (), {}), block_type=_Block, tensor=tensor)
    vars(language).update(core=inner)
    vars(module).update(tl=language)
    return module


@pytest.mark.parametrize("tensor", [_Tensor, _More])
def test_where_shapes_are_lists_or_tensors_have_more_to_them_nothing_is_kept(tensor: type) -> None:
    """A list may be changed; what is not known must not be left out. No numpy type to be asked for is no mistake."""
    module = _module(tensor)
    interpreter_types.replace(module)
    try:
        kinds = [_Block(_Dtype("int32"), [4]), _Block(_Dtype("int32"), [4]), _Layout(_Dtype("int32"), [4])]
        assert len({id(vars(kind)) for kind in kinds}) == 3
        made = [tensor(number, kinds[0]) for number in range(2)]
        assert [each.handle for each in made] == [0, 1]
        assert made[0].shape is not made[1].shape or tensor is _More
        assert vars(kinds[0]).keys() == {"element_ty", "shape", "name", "scalar"}
        assert all(hasattr(each, "more") for each in made) == (tensor is _More)
    finally:
        interpreter_types.restore(module)
    assert not replaced.is_replaced(_Block.__init__)


def test_pointers_made_anew_at_each_launch_share_one_type() -> None:
    """What is kept does not grow with the launches."""
    with corrected("sm_90"):
        blocks = [core.block_type(core.pointer_type(tl.int32), [4]) for _ in range(2)]
        assert (vars(blocks[0]) is vars(blocks[1])) == _shares()


def test_a_type_that_is_named_again_is_the_same() -> None:
    """Pointers too, which each launch names for each of its tensors; a tuple's name or a constant's is asked for."""
    if len(inspect.signature(tl.str_to_ty).parameters) < 2:
        pytest.skip("before triton 3.4 a name is all there is")
    names = ["fp32", "i1", "*bf16", "*kbf16", "*i64"]
    theirs = [tl.str_to_ty(name, None) for name in names]
    with corrected("sm_90"):
        ours = [tl.str_to_ty(name, None) for name in names]
        assert ours == theirs
        assert len({each.name for each in ours}) == len(names)
        assert all(tl.str_to_ty(name, None) is kept for name, kept in zip(names, ours, strict=True))
        assert tl.str_to_ty("constexpr", 3) == core.constexpr_type(3)
        assert tl.str_to_ty("constexpr", 4) == core.constexpr_type(4)
        pair = tl.str_to_ty(("fp32", "*bf16"), None)
        assert pair.types == [ours[0], ours[2]]
        assert tl.str_to_ty(("fp32", "*bf16"), None) is not pair
        described = "tensordesc<fp32[16, 16]>"
        assert tl.str_to_ty(described, None) is not tl.str_to_ty(described, None)
        with pytest.raises(KeyError):
            tl.str_to_ty("fp31", None)
