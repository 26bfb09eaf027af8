"""A self-test of the corrected interpreter: tiny kernels through it, every result compared with known bytes.

It shares no code with what it tests: codes come from the exact oracle, the rest is written down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.formats import exact
from kvcheck.formats.decode import decode
from kvcheck.lowering.archs import CastModel, cast_model, installed
from kvcheck.lowering.cast_lowering import model_error
from kvcheck.lowering.messages import described

Floats: TypeAlias = npt.NDArray[np.float32]

_INFINITY, _NAN = float("inf"), float("nan")

#: Carries; ties; subnormals and their ties; saturation; values that rounding to fp16 first would move (the last four).
PROBES = (
    *(31.6, 126.24, 0.0624, 15.5, 17.0, 19.0, 1.0625, 1.1875, 447.9, 448.0, 463.9, 464.0, 464.1, 465.0, 480.0, 500.0),
    *(1e30, _INFINITY, _NAN, 0.0, 2.0**-9, 2.0**-10, 1.5 * 2.0**-9, 2.5 * 2.0**-9, 2.0**-10 * 1.001, 7.5 * 2.0**-9),
    *(2.0**-6, 1e-30, 1e-45, 0.3, 3.0, 240.0, 400.199585, 272.156555, 136.002075, 1.0625001),
)
#: fp32 patterns and the bf16 patterns that they round to: ties to even, a carry, overflow, -0, infinity.
BF16_PROBES = (
    (0x3F808000, 0x3F80), (0x3F818000, 0x3F82), (0x3F80C000, 0x3F81), (0x3FFFFFFF, 0x4000), (0x7F7FFFFF, 0x7F80),
    (0x80000000, 0x8000), (0xFF800000, 0xFF80), (0x00018000, 0x0002),
)  # fmt: skip
#: Values that bf16 holds, their squares rounded to bf16, whether -1 < x < 100, and their whole parts, then in bf16.
BF16_SUMS = (
    (1.5, 2.25, 1, 1, 1), (-2.0, 4, 0, -2, -2), (-0.5, 0.25, 1, 0, 0), (1.0078125, 1.015625, 1, 1, 1),
    (3.015625, 9.125, 1, 3, 3), (257.0, 65536, 0, 256, 256), (-300.0, 90112, 0, -300, -300), (0.0, 0, 1, 0, 0),
)  # fmt: skip


def probe(arch: str) -> str | None:
    """Why interpreted casts of this process do not stand for `arch`: one line, or None where they do.

    Either the model is not what the installed Triton compiles for it, or the interpreter does not convert as the
    model says. Call it after `interpreter_cast.install(arch)`. What depends on the cast is inconclusive where this is
    not None. Raises SelectionError for an unknown arch.
    """
    # The compiler first: some versions of the interpreter leave Triton's language patched behind them.
    return model_error(arch) or interpreter_error(arch)


def interpreter_error(arch: str) -> str | None:
    """The interpreter's half of `probe`: why it does not convert as the model says, or None. Starts no compiler."""
    model = cast_model(arch)
    try:
        error = _narrowing_error() or _scalar_error() or _bf16_error()
        return error or (_cast_error(model) if model.compiles else _refusal_error(model))
    except Exception as error:  # noqa: BLE001 - whatever an unknown interpreter raises
        return f"triton {installed()}: the interpreter's self-test raised {described(error)}"


def probe_values() -> Floats:
    """The probes of both signs, padded to a power of two with ones."""
    values = np.array(PROBES, dtype=np.float32)
    both = np.concatenate([values, -values])
    return np.concatenate([both, np.ones(128 - both.size, dtype=np.float32)])


def _scalar_error() -> str | None:
    """A loaded scalar in a condition and as the bound of a loop."""
    from kvcheck.kernels import conversions  # noqa: PLC0415 - imports triton

    found = interpret(conversions.count, np.array([3, 0, 0, 0], dtype=np.int32), np.zeros(4, dtype=np.int32))
    if found.tolist() == [1, 1, 1, 0]:
        return None
    return f"triton {installed()}: the interpreter's loop to a loaded bound of 3 stored {found.tolist()}"


def _narrowing_error() -> str | None:
    """fp32 → bf16."""
    from kvcheck.kernels import conversions  # noqa: PLC0415 - imports triton

    patterns = np.array([pattern for pattern, _ in BF16_PROBES], dtype=np.uint32)
    found = interpret(conversions.narrow, patterns.view(np.float32), np.zeros(patterns.size, dtype=np.int16))
    for (pattern, expected), got in zip(BF16_PROBES, found.view(np.uint16).tolist(), strict=True):
        if got != expected:
            return _differs("bf16", np.uint32(pattern).view(np.float32), got, expected)
    return None


def _bf16_error() -> str | None:
    """Arithmetic in bf16."""
    from kvcheck.kernels import conversions  # noqa: PLC0415

    values = np.array([each[0] for each in BF16_SUMS], dtype=np.float32)
    found = interpret(conversions.compute_bf16, values, np.zeros(4 * values.size, dtype=np.float32))
    right = np.array([each[1:] for each in BF16_SUMS], dtype=np.float32).T.reshape(-1)
    wrong = np.flatnonzero(found != right)
    if not wrong.size:
        return None
    part, at = divmod(int(wrong[0]), values.size)
    what = ("square", "comparison with -1 and 100", "whole part", "whole part as bf16")[part]
    first = f"{found[wrong[0]]}, expected {right[wrong[0]]}"
    return f"triton {installed()}: in bf16, the interpreter's {what} of {values[at]} gives {first}"


def _cast_error(model: CastModel) -> str | None:
    """The explicit cast from every type, the cast that a store makes, and all 256 codes back."""
    from kvcheck.kernels import conversions  # noqa: PLC0415

    values = probe_values()
    wide, half = model.fp32, model.half
    if wide is None or half is None:
        return model.reason
    right = exact.encode(values, rounding=wide)
    explicit = interpret(conversions.cast, values, np.zeros(values.size, dtype=np.uint8))
    implicit = interpret(conversions.store_cast, values, np.zeros(values.size, dtype=np.uint8), float8=True)
    error = _first_difference("e4m3fn", values, explicit, right)
    error = error or _first_difference("e4m3fn, by a store,", values, implicit, right)
    if error:
        return error
    with np.errstate(all="ignore"):
        narrow = values.astype(np.float16)
    found = interpret(conversions.cast, narrow, np.zeros(values.size, dtype=np.uint8))
    widened = narrow.astype(np.float32)
    error = _first_difference("e4m3fn from fp16", widened, found, exact.encode(widened, rounding=half))
    return error or _decoding_error()


def _decoding_error() -> str | None:
    """All 256 codes to fp32."""
    from kvcheck.kernels import conversions  # noqa: PLC0415

    codes = np.arange(256, dtype=np.uint8)
    found = interpret(conversions.decode, codes, np.zeros(256, dtype=np.float32))
    right = decode(codes)
    same = (found.view(np.uint32) == right.view(np.uint32)) | (np.isnan(found) & np.isnan(right))
    if same.all() and np.isnan(found[0x7F]) and found[0x7E] == 448:
        return None
    first = int(np.flatnonzero(~same)[0])
    return f"triton {installed()}: the interpreter decodes 0x{first:02X} to {found[first]}, expected {right[first]}"


def _refusal_error(model: CastModel) -> str | None:
    """An arch without fp8e4nv: the cast must be refused."""
    from kvcheck.kernels import conversions  # noqa: PLC0415

    try:
        interpret(conversions.cast, probe_values(), np.zeros(128, dtype=np.uint8))
    except Exception as error:
        if "not supported in this architecture" in str(error):
            return None
        raise
    return f"triton {installed()}: the interpreter casts to fp8e4nv, which {model.arch} cannot"


def interpret(
    kernel: Callable[..., None],
    values: npt.NDArray[np.generic],
    results: npt.NDArray[np.generic],
    *,
    float8: bool = False,
) -> npt.NDArray[np.generic]:
    """Run one program of a plain kernel through the interpreter, whatever TRITON_INTERPRET says; its results.

    Both arrays are flat; SIZE is the number of values, a power of two. `float8` hands the results over as e4m3fn.
    """
    import torch  # noqa: PLC0415 - the interpreter takes its tensors
    from triton.runtime.interpreter import InterpretedFunction  # noqa: PLC0415 - private

    source, target = torch.from_numpy(values.copy()), torch.from_numpy(results.copy())
    handed = target.view(torch.float8_e4m3fn) if float8 else target
    InterpretedFunction(kernel)[(1,)](source, handed, SIZE=values.size)
    return np.asarray(target.numpy())


def _first_difference(
    what: str, values: Floats, found: npt.NDArray[np.generic], right: npt.NDArray[np.uint8]
) -> str | None:
    wrong = np.flatnonzero(found != right)
    if not wrong.size:
        return None
    first = int(wrong[0])
    return _differs(what, values[first], int(found[first]), int(right[first]))


def _differs(what: str, value: np.float32, got: int, expected: int) -> str:
    cast = f"the interpreter's cast of {value} to {what}"
    return f"triton {installed()}: {cast} gives 0x{got:02X}, expected 0x{expected:02X}"
