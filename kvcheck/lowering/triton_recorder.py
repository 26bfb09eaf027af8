"""Triton's launches with all that it takes to make them again: code, grid, parameters. The only place that knows how.

`CompiledKernel.run`, its `src.signature`, `metadata` and `asm` are private. Seen to be so on triton 3.6.0 and 3.7.1;
where a version has others, fewer launches are recorded than are made, and whoever asked is told so.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

#: A pointer parameter's value is an address; the rest are packed as the kernel takes them.
_PACKED = {
    "i1": "<b", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q", "u1": "<B", "u8": "<B", "u16": "<H", "u32": "<I",
    "u64": "<Q", "fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d", "f64": "<d",
}  # fmt: skip

#: Threads of a warp.
_WARP = 32


class NotRecordedError(Exception):
    """A launch cannot be made again: one line says why."""


@dataclass(frozen=True)
class Started:
    """A launch that is about to be made. `parameters` holds an address or an object with `data_ptr`, or bytes."""

    name: str
    code: bytes
    grid: tuple[int, int, int]
    threads: int
    shared: int
    scratch: int
    parameters: tuple[Any, ...]


Listener = Callable[[Started], None]


@contextlib.contextmanager
def recording(listener: Listener) -> Iterator[None]:
    """Call `listener` before every launch made in the block. What it raises, the launch raises.

    Raises ImportError or AttributeError where this Triton has no such internals.
    """
    from triton.compiler.compiler import CompiledKernel  # noqa: PLC0415 - slow to import, and private

    original: Any = vars(CompiledKernel).get("run")
    if not isinstance(original, property):
        raise AttributeError("CompiledKernel.run is no property")  # noqa: TRY004 - what a missing one raises

    def run(self: Any) -> Callable[..., object]:
        launcher = original.__get__(self, type(self))

        def launch(x: int, y: int, z: int, *rest: Any) -> object:
            # Then stream, function, packed metadata, the launch's own metadata, and two hooks: the kernel's arguments.
            listener(started(self, (int(x), int(y), int(z)), rest[6:]))
            return launcher(x, y, z, *rest)

        return launch

    CompiledKernel.run = property(run)
    try:
        yield
    finally:
        CompiledKernel.run = original


def started(kernel: Any, grid: tuple[int, int, int], arguments: Sequence[Any]) -> Started:
    """A launch of a compiled kernel. Raises NotRecordedError for what a plain launch does not do."""
    metadata = kernel.metadata
    for name in ("num_ctas", "launch_cooperative_grid"):
        value = getattr(metadata, name, None)
        if value not in (None, False, 0, 1) or value is True:
            raise NotRecordedError(f"{kernel.name} is launched with {name} = {value}, which is not made again")
    code = kernel.asm.get("cubin") if hasattr(kernel.asm, "get") else kernel.asm["cubin"]
    if not isinstance(code, bytes):
        raise NotRecordedError(f"{kernel.name} has no cubin")
    types = _flat(tuple(kernel.src.signature.values()))
    values = _flat(tuple(arguments))
    kept = [kind for kind in types if kind != "constexpr"]
    if len(values) == len(types):
        values = [value for kind, value in zip(types, values, strict=True) if kind != "constexpr"]
    if len(values) != len(kept):
        raise NotRecordedError(f"{kernel.name} has {len(kept)} parameters and was handed {len(values)}")
    parameters = tuple(packed(kernel.name, kind, value) for kind, value in zip(kept, values, strict=True))
    return Started(
        kernel.name, code, grid, metadata.num_warps * _WARP, metadata.shared,
        int(getattr(metadata, "global_scratch_size", 0) or 0), parameters,
    )  # fmt: skip


def packed(kernel: str, kind: str, value: Any) -> Any:
    """A parameter: bytes for a plain value, what `value` is for a pointer. Raises NotRecordedError for other kinds."""
    if kind.startswith("*"):
        return value
    if kind == "bf16":
        (bits,) = struct.unpack("<I", struct.pack("<f", float(value)))
        return struct.pack("<H", (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 & 0xFFFF)
    if kind not in _PACKED:
        raise NotRecordedError(f"{kernel} takes a parameter of type {kind}, which is not made again")
    form = _PACKED[kind]
    if form[-1] in "efd":
        return struct.pack(form, float(value))
    # Triton hands a value of either sign to a parameter of as many bits.
    size = struct.calcsize(form)
    return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _flat(values: tuple[Any, ...]) -> list[Any]:
    """Tuples taken apart, as the launcher does."""
    found: list[Any] = []
    for value in values:
        found += _flat(tuple(value)) if isinstance(value, tuple) else [value]
    return found
