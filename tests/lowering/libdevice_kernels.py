"""Kernels that call one function of libdevice each, and operands for them at which a wrong model would show."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kvcheck.lowering.libdevice import model

#: The functions that kvcheck models, by operands and by results.
FLOATS = ("rint", "nearbyint", "round", "trunc", "floor", "ceil", "rcp_rn", "sqrt_rn", "abs", "saturatef")
INT32 = (
    *("float2int_rn", "float2int_rz", "float2int_rd", "float2int_ru", "float_as_int"),
    *("isnan", "isinf", "finitef", "signbit"),
)
INT64 = ("float2ll_rn", "llrint")
PAIRS = ("div_rn", "mul_rn", "add_rn", "sub_rn", "copysign")
DOUBLES = ("rint", "nearbyint", "round", "trunc", "floor", "ceil")
OF_INTEGERS = ("int2float_rn", "int_as_float")
#: numpy's types of operands and of results, and the functions that have them.
GROUPS: tuple[tuple[type[np.generic], type[np.generic], tuple[str, ...]], ...] = (
    (np.float32, np.float32, FLOATS + PAIRS), (np.float32, np.int32, INT32), (np.float32, np.int64, INT64),
    (np.float64, np.float64, DOUBLES), (np.int32, np.float32, OF_INTEGERS),
)  # fmt: skip
#: libdevice's names where they are not Triton's with an f for fp32.
_NAMES = {"rcp_rn": "frcp_rn", "sqrt_rn": "fsqrt_rn", "abs": "fabsf", "saturatef": "saturatef", "finitef": "finitef"}

_SOURCE = """
import triton.language as tl
from triton.language.extra.cuda import libdevice

def kernel(first, second, results, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    one, other = tl.load(first + at), tl.load(second + at)
    tl.store(results + at, libdevice.{call})
"""


def made(folder: Path, function: str) -> Callable[..., None]:
    """A kernel of one function, as a file of its own: compilers read its source."""
    path = folder / f"{function}.py"
    path.write_text(_SOURCE.format(call=f"{function}({'one, other' if function in PAIRS else 'one'})"))
    spec = importlib.util.spec_from_file_location(f"libdevice_{function}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel: Callable[..., None] = module.kernel
    return kernel


def modelled(function: str, first: npt.NDArray[Any], second: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What the model of a function gives."""
    run = model(_symbol(function, first.dtype))
    assert run is not None, function
    with np.errstate(all="ignore"):
        return run(first, second) if function in PAIRS else run(first)


def _symbol(function: str, of: np.dtype[Any]) -> str:
    if function in PAIRS and function != "copysign":
        return f"__nv_f{function}"
    if function in _NAMES or "2" in function or "_as_" in function:
        return f"__nv_{_NAMES.get(function, function)}"
    return f"__nv_{function}{'' if of == np.float64 else 'f'}"


def pairs(count: int, of: type[np.generic]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """`count` pairs of operands of a type (a multiple of 65536): for int32 the bits of the fp32 ones."""
    first, second = operands(count)
    if of is np.int32:
        return first.view(np.int32), second.view(np.int32)
    with np.errstate(invalid="ignore"):  # NaNs that signal
        return first.astype(of), second.astype(of)


def edges() -> npt.NDArray[np.float32]:
    """256 values of both signs: ties, halves' neighbours, bounds of integers, subnormals, infinities, NaN."""
    tiny = np.finfo(np.float32).tiny
    large = [2.0**-125, 2.0**126, 2.0**22 + 0.5, 2.0**23, 2.0**24, 2.0**31, 2.0**63, 3.4e38]
    centres = [0.5, 1.0, 1.5, 2.5, 3.5, 127.5, 448.0, float(tiny), 1e-40, *large]
    near = [float(np.nextafter(np.float32(c), np.float32(to))) for c in centres for to in (0, np.inf)]
    values = [0.0, 1e-45, 1e-30, 1e30, 0.1, 7.3, 99.99, 1 / 3, float("inf"), float("nan"), *centres, *near]
    both = np.array([*values, *(-each for each in values)], dtype=np.float32)
    return np.concatenate([both, np.ones(256 - both.size, dtype=np.float32)])


def operands(count: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """`count` pairs (a multiple of 65536): all pairs of the edges, then any bit patterns, some near each other."""
    values = edges()
    first, second = np.repeat(values, 256), np.tile(values, 256)
    draw = np.random.Generator(np.random.PCG64(0))
    patterns = draw.integers(0, 2**32, (2, count - first.size), dtype=np.uint32).view(np.float32)
    near = draw.uniform(-300, 300, patterns.shape).astype(np.float32)
    mixed = np.where(draw.integers(0, 2, patterns.shape) == 1, patterns, near)
    return np.concatenate([first, mixed[0]]), np.concatenate([second, mixed[1]])


def same(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where bits are equal, or both are NaN. Of equal shape and dtype."""
    bits = f"u{expected.dtype.itemsize}"
    equal: npt.NDArray[np.bool_] = found.view(bits) == expected.view(bits)
    if expected.dtype.kind != "f":
        return equal
    return np.asarray(equal | (np.isnan(found) & np.isnan(expected)))
