# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Encoders under test: right ones and wrong ones. Loaded as a file, never imported."""

from __future__ import annotations

import os

import torch
import triton
import triton.language as tl

from kvcheck import EncoderContract, encoder_target

SIZE = 1 << 16


@triton.jit
def away(values, codes, SIZE: tl.constexpr):  # noqa: ANN001, ANN201, N803, D103
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    bits = tl.load(values + at).to(tl.float32).to(tl.int32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    # Half of the last kept bit is always added, and what is too small is zero.
    code = tl.minimum(((magnitude + 0x00080000) >> 20) - 960, 0x7E)
    code = tl.where(magnitude < 0x3C800000, 0, code)
    code = tl.where(magnitude > 0x7F800000, 0x7E, code) | ((bits >> 24) & 0x80)
    tl.store(codes + at, tl.where(code == 0x80, 0, code).to(tl.uint8))


@triton.jit
def scrambled(values, codes, SIZE: tl.constexpr):  # noqa: ANN001, ANN201, N803, D103
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    bits = tl.load(values + at).to(tl.int32, bitcast=True)
    tl.store(codes + at, ((bits * -1640531535) >> 24).to(tl.uint8))


@triton.jit
def native_e5m2(values, codes, SIZE: tl.constexpr):  # noqa: ANN001, ANN201, N803, D103
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    tl.store(codes + at, tl.load(values + at).to(tl.float8e5).to(tl.uint8, bitcast=True))


@triton.jit
def native_e4m3(values, codes, SIZE: tl.constexpr):  # noqa: ANN001, ANN201, N803, D103
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    tl.store(codes + at, tl.load(values + at).to(tl.float8e4nv).to(tl.uint8, bitcast=True))


def launch(kernel, x: torch.Tensor, out: torch.Tensor) -> None:  # noqa: ANN001, D103
    size = SIZE if not x.is_cuda else 1024
    kernel[(x.numel() // size,)](x, out, SIZE=size)


@encoder_target("away", contract=EncoderContract(dtypes=("fp32", "bf16", "fp16")))
def encode_away(x: torch.Tensor, out: torch.Tensor) -> None:
    """Ties away from zero, subnormals flushed, NaN made a number, -0 dropped: four faults."""
    launch(away, x, out)


@encoder_target("away-undefined", contract=EncoderContract(rounding="half_away", nan="undefined", negative_zero="drop"))
def encode_away_undefined(x: torch.Tensor, out: torch.Tensor) -> None:
    """The same, all but the flush declared."""
    launch(away, x, out)


@encoder_target("scrambled")
def encode_scrambled(x: torch.Tensor, out: torch.Tensor) -> None:
    """A code that changes with almost every input."""
    launch(scrambled, x, out)


@encoder_target("native-e5m2", contract=EncoderContract(format="e5m2"))
def encode_native_e5m2(x: torch.Tensor, out: torch.Tensor) -> None:
    """Triton's own cast to e5m2."""
    launch(native_e5m2, x, out)


@encoder_target("native-e4m3")
def encode_native_e4m3(x: torch.Tensor, out: torch.Tensor) -> None:
    """Triton's own cast to e4m3fn."""
    launch(native_e4m3, x, out)


@encoder_target("raises")
def encode_raises(x: torch.Tensor, out: torch.Tensor) -> None:  # noqa: ARG001
    """Cannot encode."""
    raise RuntimeError("no encoder here")


@encoder_target("dies")
def encode_dies(x: torch.Tensor, out: torch.Tensor) -> None:  # noqa: ARG001
    """Takes its process along."""
    os.write(2, b"LLVM ERROR: out of ideas\n")
    os.abort()
