# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Checks that the interpreter throws away are left out: what it computes stays the same."""

from __future__ import annotations

import importlib
from types import ModuleType, SimpleNamespace

import pytest
import torch
import triton
import triton.language as tl
from sketches.running import judged

from kvcheck.kernels.store import store
from kvcheck.lowering import interpreter_checks, replaced
from kvcheck.lowering.interpreter_cast import corrected
from kvcheck.schema import Case

OVERFLOW, BROADCAST = "binary_op_sanitize_overflow_impl", "broadcast_impl_value"


def _private() -> ModuleType:
    return importlib.import_module("triton.runtime.interpreter")


def test_bytes_are_the_same_with_and_without() -> None:
    """Codes and scales, large values and small ones."""
    case = Case(tokens=2, k_values="normal*5", v_values="normal*2^-20")
    with corrected("sm_90"):
        ours = judged(store, case)
    with corrected("sm_90"):
        interpreter_checks.restore(_private())
        theirs = judged(store, case)
    assert ours.digest is not None
    assert (ours.outcome, ours.digest) == (theirs.outcome, theirs.digest)


@triton.jit
def _sums(out, width: tl.constexpr):  # noqa: ANN001, ANN202
    """Integers that wrap, and every way in which shapes can meet: equal, stretched, with a number, with a row."""
    at = tl.arange(0, width)
    row, column = at[None, :], at[:, None]
    large = at + 0x7FFFFFF0
    square = row * 3 + column + (row + column) - large[None, :] * 2
    tl.store(out + row + column * width, square)


def _launched() -> list[int]:
    out = torch.zeros(16 * 16, dtype=torch.int32)
    _sums[(1,)](out, 16)
    found: list[int] = out.tolist()
    return found


def test_integers_wrap_and_shapes_meet_as_they_did() -> None:
    """Beside the same sums in 64 bits, cut to 32."""
    at = torch.arange(16, dtype=torch.int64)
    right = (at[None] * 3 + at[:, None] + (at[None] + at[:, None]) - (at + 0x7FFFFFF0)[None] * 2).to(torch.int32)
    with corrected("sm_90"):
        assert _launched() == right.flatten().tolist()
        interpreter_checks.restore(_private())
        assert _launched() == right.flatten().tolist()


class _Semantic:
    """What an operation does, as far as it matters here."""

    def __init__(self, **options: bool) -> None:
        self.builder, self.checked = SimpleNamespace(options=SimpleNamespace(**options)), 0

    def binary_op_sanitize_overflow_impl(self, lhs: object, rhs: object, operation: object) -> None:
        del lhs, rhs, operation
        self.checked += 1

    def broadcast_impl_value(self, lhs: object, rhs: object) -> tuple[object, str]:
        del rhs
        return lhs, "stretched"


@pytest.mark.parametrize(("options", "times"), [({"debug": False}, 0), ({"debug": True}, 1), ({}, 1)])
def test_an_overflow_that_somebody_looks_at_is_looked_for(options: dict[str, bool], times: int) -> None:
    """Or that somebody may look at; and the class gets back what was its own."""
    semantic, module = _Semantic(**options), ModuleType("interpreter")
    module.interpreter_semantic = semantic  # type: ignore[attr-defined]
    own = vars(_Semantic)[OVERFLOW]
    interpreter_checks.replace(module)
    interpreter_checks.replace(module)
    try:
        assert replaced.original(vars(_Semantic)[OVERFLOW]) is own
        semantic.binary_op_sanitize_overflow_impl("lhs", "rhs", "add")
        assert semantic.checked == times
    finally:
        interpreter_checks.restore(module)
    assert vars(_Semantic)[OVERFLOW] is own
    assert not replaced.is_replaced(vars(_Semantic)[BROADCAST])


def test_only_blocks_that_share_a_shape_are_left_as_they_are() -> None:
    """Not equal shapes that are two, which Triton compares; and not numbers, which have none."""
    semantic, module = _Semantic(), ModuleType("interpreter")
    module.interpreter_semantic = semantic  # type: ignore[attr-defined]
    shape = (4,)
    one, same, equal, number = (
        SimpleNamespace(type=SimpleNamespace(**kind))
        for kind in ({"shape": shape}, {"shape": shape}, {"shape": tuple(size for size in shape)}, {})
    )
    interpreter_checks.replace(module)
    try:
        left, right = semantic.broadcast_impl_value(one, same)
        assert (id(left), id(right)) == (id(one), id(same))
        assert semantic.broadcast_impl_value(one, equal) == (one, "stretched")
        assert semantic.broadcast_impl_value(one, number) == (one, "stretched")
        assert semantic.broadcast_impl_value(number, number) == (number, "stretched")
    finally:
        interpreter_checks.restore(module)


def test_a_triton_without_these_names_is_left_alone() -> None:
    """Nothing is put in, and nothing raised."""
    module = ModuleType("interpreter")
    interpreter_checks.replace(module)
    interpreter_checks.restore(module)
    assert not vars(module).keys() - {"__name__", "__doc__", "__package__", "__loader__", "__spec__"}
