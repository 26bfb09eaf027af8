"""Kernels that call libdevice, in Triton's interpreter: by every name, and what is not modelled."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
import triton.language as tl
from triton.language.extra import libdevice as by_name_only
from triton.language.extra.cuda import libdevice

from kvcheck.lowering import interpreter_extern, replaced
from kvcheck.lowering.interpreter_cast import corrected
from kvcheck.lowering.interpreter_errors import NotModelledError, unjudged
from kvcheck.lowering.interpreter_probe import interpret

from . import libdevice_calls as calls
from . import libdevice_kernels

VALUES = np.array([0.5, 1.5, -2.5, 7.3], dtype=np.float32)

Kernel = Callable[..., None]


def _private() -> ModuleType:
    return importlib.import_module("triton.runtime.interpreter")


def _stored(kernel: Kernel) -> list[float]:
    found: list[float] = interpret(kernel, VALUES, np.zeros(VALUES.size, dtype=np.float32)).tolist()
    return found


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (calls.by_attribute, [0.0, 2.0, -2.0, 7.0]),
        (calls.by_module, [0.0, 2.0, -2.0, 7.0]),
        (calls.by_generic, [0.0, 2.0, -2.0, 7.0]),
        (calls.by_name, [1.0, 2.0, -3.0, 7.0]),
        (calls.divided, (VALUES / np.float32(3)).tolist()),
        (calls.scalar, [2.0, 0.0, 0.0, 0.0]),
    ],
)
def test_a_function_is_called_by_any_of_its_names(kernel: Kernel, expected: list[float]) -> None:
    """Of blocks and of scalars."""
    with corrected("sm_90"):
        assert _stored(kernel) == expected


@pytest.mark.skipif(not hasattr(tl.extra.cuda, "gdc_wait"), reason="this triton has no launches that wait")
def test_a_launch_waits_for_none() -> None:
    """On a CPU the one before has ended."""
    with corrected("sm_90"):
        assert _stored(calls.waiting) == VALUES.tolist()


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (calls.fast, "kvcheck has no model of libdevice's __nv_fast_fdividef: without a GPU"),
        (calls.nameless, "kvcheck has no model of libdevice's __nv_exp2f: without a GPU"),
        (calls.assembly, r"does not know inline assembly \(cvt.rni.f32.f32 \$0, \$1;\): without a GPU"),
        (calls.processor, "Triton's interpreter does not know smid of triton.language.extra.cuda"),
    ],
)
def test_what_has_no_model_needs_a_gpu(kernel: Kernel, said: str) -> None:
    """Nothing is guessed, and nothing taken for the kernel's mistake."""
    with corrected("sm_90"), pytest.raises(Exception, match=r".") as raised:
        _stored(kernel)
    error = unjudged(raised.value)
    assert isinstance(error, NotModelledError)
    with pytest.raises(NotModelledError, match=said):
        raise error


def test_a_type_that_a_function_does_not_take_is_the_kernels_mistake() -> None:
    """No compiler takes it either."""
    with corrected("sm_90"), pytest.raises(Exception, match=r"bfloat16|bf16") as raised:
        _stored(calls.doubled)
    assert unjudged(raised.value) is None


def test_an_operation_that_the_interpreter_lacks_needs_a_gpu() -> None:
    """Its builder has no such method; another object's missing attribute is the kernel's."""
    builder = _private().InterpreterBuilder()
    with pytest.raises(AttributeError) as raised:
        builder.create_histogram_of_tomorrow()
    error = unjudged(raised.value)
    assert isinstance(error, NotModelledError)
    assert "Triton's interpreter has no create_histogram_of_tomorrow: without a GPU" in str(error)
    assert unjudged(AttributeError("no", name="create_x", obj=3)) is None


@pytest.mark.parametrize(
    ("of", "to", "names"), libdevice_kernels.GROUPS, ids=lambda part: getattr(part, "__name__", "")
)
def test_every_model_is_reached_by_tritons_name(
    tmp_path: Path, of: type[np.generic], to: type[np.generic], names: tuple[str, ...]
) -> None:
    """Its symbol is the one that Triton's module has, and its results have that one's type."""
    first, second = (torch.from_numpy(each[-1024:]) for each in libdevice_kernels.pairs(1 << 16, of))
    for name in names:
        results = torch.zeros(1024, dtype=getattr(torch, np.dtype(to).name))
        with corrected("sm_90"):
            kernel = _private().InterpretedFunction(libdevice_kernels.made(tmp_path, name))
            kernel[(1,)](first, second, results, SIZE=1024)
        expected = libdevice_kernels.modelled(name, first.numpy(), second.numpy())
        assert expected.dtype == to
        assert libdevice_kernels.same(results.numpy(), expected).all(), name


def test_a_kernel_sees_what_the_functions_inside_it_mention() -> None:
    """And no other name of its module is looked at: there may be thousands."""

    def outer(x: float) -> Callable[[], float]:
        def inner() -> float:
            return float(libdevice.rint(x))

        return inner

    assert set(interpreter_extern._mentioned(outer.__code__)) == {"float", "libdevice", "rint"}


def test_own_functions_are_given_back() -> None:
    """Behind the block Triton's modules and its builder are as they were; a second replacement changes nothing."""
    module = _private()
    owners = [
        (module.InterpreterBuilder, "create_extern_elementwise"), (module.InterpreterBuilder, "create_inline_asm"),
        (module.InterpretedFunction, "rewrite"), (libdevice, "rint"), (by_name_only, "rint"), (tl.extra.cuda, "smid"),
    ]  # fmt: skip
    before = [vars(owner)[name] for owner, name in owners]
    with corrected("sm_90"):
        inside = [vars(owner)[name] for owner, name in owners]
        assert all(map(replaced.is_replaced, inside))
        interpreter_extern.replace(module)
        assert all(map(replaced.is_replaced, (vars(owner)[name] for owner, name in owners)))
    assert [vars(owner)[name] for owner, name in owners] == before


def test_older_builders_are_handed_over_under_their_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before triton 3.4 the last argument was the builder; a builder without the methods is left alone."""

    def rint(value: object, _builder: object = None) -> object:
        return value, _builder

    rint.__module__ = libdevice.__name__
    monkeypatch.setattr(libdevice, "rint", rint)
    older = SimpleNamespace(
        InterpreterBuilder=type("InterpreterBuilder", (), {}), InterpretedFunction=type("InterpretedFunction", (), {}),
        interpreter_builder="the builder",
    )  # fmt: skip
    interpreter_extern.replace(older)  # type: ignore[arg-type]
    try:
        assert libdevice.rint(1.0) == (1.0, "the builder")
        assert libdevice.rint(1.0, _builder="a compiler's") == (1.0, "a compiler's")
        assert not vars(older.InterpreterBuilder).keys() & {"create_extern_elementwise", "create_inline_asm"}
    finally:
        interpreter_extern.restore(older)  # type: ignore[arg-type]
    assert libdevice.rint is rint


@pytest.mark.parametrize(
    "error",
    [
        AssertionError("Torch not compiled with CUDA enabled"),
        RuntimeError("Tried to instantiate dummy base class _cuda_isCurrentStreamCapturing"),
        RuntimeError("0 active drivers ([]). There should only be one."),
    ],
)
def test_what_is_a_gpus_alone_is_no_crash(error: Exception) -> None:
    """In the first line of torch's or Triton's own words; another exception with them is the target's."""
    found = unjudged(error)
    assert str(found) == f"{str(error).rstrip('.')}: without a GPU this kernel cannot be judged"
    assert unjudged(ValueError(str(error))) is None
