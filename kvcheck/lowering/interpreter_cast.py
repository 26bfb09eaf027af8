"""Triton's interpreter with right float conversions. The only place that touches how the interpreter converts floats.

`triton.runtime.interpreter._convert_float` is private. On triton 3.2 to 3.9 every conversion between an 8-bit float and
another, and between fp32 and bf16, passes through it, the implicit one of a store included. It loses carries, wraps on
overflow, truncates fp32 to bf16, and decodes 0x7F of e4m3fn to 480. Here it is replaced. On another version that is
tried likewise, and `kvcheck.lowering.interpreter_probe` says whether it worked.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.formats import bits
from kvcheck.formats.cast import bf16_patterns, fp16_patterns
from kvcheck.formats.decode import decode
from kvcheck.lowering import (
    interpreter_bf16,
    interpreter_checks,
    interpreter_extern,
    interpreter_patches,
    interpreter_scalars,
    interpreter_types,
)
from kvcheck.lowering.archs import CastModel, Source, cast_model
from kvcheck.lowering.interpreter_errors import NotCompiledError, NotModelledError

Patterns: TypeAlias = npt.NDArray[np.uint32]
Converted: TypeAlias = npt.NDArray[np.unsignedinteger]
Conversion: TypeAlias = Callable[[npt.NDArray[np.generic], "TritonType", "TritonType", object], Converted]

#: 8-bit floats by Triton's names, and the formats they are.
FORMATS = {"fp8e4nv": "e4m3fn", "fp8e5": "e5m2", "fp8e4b8": "e4m3fnuz", "fp8e5b16": "e5m2fnuz"}
#: Those that NVIDIA's cast can produce, and so the models speak of.
ENCODED = ("fp8e4nv", "fp8e5")
#: What else is put in the place of the interpreter's own.
_PARTS = (
    interpreter_scalars,
    interpreter_bf16,
    interpreter_patches,
    interpreter_types,
    interpreter_checks,
    interpreter_extern,
)
WIDE: dict[str, Source] = {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16"}


class TritonType(Protocol):
    """Triton's scalar type, as far as it matters here."""

    @property
    def name(self) -> str:
        """Triton's name of the type: `fp32`."""


def install(arch: str) -> None:
    """Make the interpreter of this process convert as `arch`'s compiler does.

    It computes with bf16 as GPUs do, too, and calls libdevice. A second call changes the arch. Where Triton is missing,
    or has no such internals, the probe will say so. Raises SelectionError for an unknown arch.
    """
    model = cast_model(arch)
    with contextlib.suppress(ImportError, AttributeError):
        module = _interpreter()
        setattr(module, "_convert_float", conversion(model))  # noqa: B010 - a private name, set on purpose
        for part in _PARTS:
            part.replace(module)


@contextlib.contextmanager
def corrected(arch: str) -> Iterator[None]:
    """Convert as `arch` does within the block, and as Triton does itself behind it. Raises as `install` does.

    Raises ImportError too, where there is no Triton.
    """
    module = _interpreter()
    before = vars(module)["_convert_float"]
    install(arch)
    try:
        yield
    finally:
        setattr(module, "_convert_float", before)  # noqa: B010
        for part in _PARTS:
            part.restore(module)


def _interpreter() -> ModuleType:
    # Imported late: TRITON_INTERPRET must have been set before Triton is.
    return importlib.import_module("triton.runtime.interpreter")


def conversion(model: CastModel) -> Conversion:
    """The function that takes `_convert_float`'s place: bits in, bits of the other type out, in the same shape.

    To nearest even unless the mode says toward zero. Every NaN stays NaN, -0 stays -0, and infinities stay where the
    type has them; casts to 8-bit floats are the model's. Raises NotModelledError and NotCompiledError.
    """

    def convert(values: npt.NDArray[np.generic], source: TritonType, result: TritonType, rounding: object) -> Converted:
        if source.name == "fp8e4nv":
            _check_compiles(model, f"a conversion from {source.name} to {result.name}")
        patterns = _widened(values, source)
        shape = np.shape(values)
        if result.name == "fp32":
            return patterns.reshape(shape)
        toward_zero = str(getattr(rounding, "name", rounding)) == "RTZ"
        if result.name == "bf16":
            narrow = patterns & np.uint32(0xFFFF0000) if toward_zero else bf16_patterns(patterns)
            return _nan_kept(patterns, narrow, np.uint32(16)).reshape(shape)
        if result.name == "fp16":
            return _fp16_bits(fp16_patterns(patterns, toward_zero=toward_zero)).reshape(shape)
        return _encoded(model, patterns, source, result, toward_zero=toward_zero).reshape(shape)

    return convert


def _widened(values: npt.NDArray[np.generic], source: TritonType) -> Patterns:
    """Values of any type here, as the fp32 bit patterns they widen to, flat. Every one is exact."""
    raw = np.frombuffer(values.tobytes(), dtype=f"u{values.dtype.itemsize}")
    if source.name == "fp32":
        return raw.astype(np.uint32)
    if source.name == "bf16":
        shifted: Patterns = raw.astype(np.uint32) << np.uint32(16)
        return shifted
    if source.name == "fp16":
        widened: npt.NDArray[np.float32] = raw.view(np.float16).astype(np.float32)
        return widened.view(np.uint32)
    if source.name in FORMATS:
        return decode(raw.view(np.uint8), FORMATS[source.name]).view(np.uint32)
    raise NotModelledError(f"kvcheck has no model of a conversion from {source.name}")


def _nan_kept(patterns: Patterns, narrow: Patterns, shift: np.uint32) -> Converted:
    """The upper bits of fp32 patterns, with NaNs whose payload would be cut off made quiet."""
    nan = (patterns & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return (np.where(nan, patterns | np.uint32(0x00400000), narrow) >> shift).astype(np.uint16)


def _fp16_bits(patterns: Patterns) -> Converted:
    """fp32 patterns that hold fp16 values as fp16's bits."""
    with np.errstate(all="ignore"):
        return patterns.view(np.float32).astype(np.float16).view(np.uint16)


def _encoded(
    model: CastModel, patterns: Patterns, source: TritonType, result: TritonType, *, toward_zero: bool
) -> Converted:
    """The codes that the model gives."""
    what = f"a conversion from {source.name} to {result.name}"
    if result.name == "fp8e4nv":
        _check_compiles(model, what)
    rounding = model.rounding(WIDE[source.name]) if source.name in WIDE else None
    if result.name not in ENCODED or rounding is None or toward_zero:
        raise NotModelledError(f"kvcheck has no model of {what}{' toward zero' * toward_zero} on {model.arch}")
    return bits.encode(patterns, FORMATS[result.name], rounding=rounding)


def _check_compiles(model: CastModel, what: str) -> None:
    """Raise NotCompiledError where the arch's compiler knows no fp8e4nv."""
    if model.reason is not None and not model.compiles:
        raise NotCompiledError(f"{what}: {model.reason}")
