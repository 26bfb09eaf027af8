"""The encoder alone, over a tensor: what a sweep over every input runs."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.kernels import conversions
from kvcheck.kernels.encode import encode_e4m3fn

#: Elements a program encodes. A GPU takes any; the interpreter pays 10 ms a program, whatever its size.
BLOCK = 1024


@triton.jit
def encode_kernel(values, codes, count, SIZE: tl.constexpr):
    """Encode `SIZE` of `count` values, bf16, fp16 or fp32, to bytes."""
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    value = tl.load(values + at, mask=at < count, other=0.0).to(tl.float32)
    tl.store(codes + at, encode_e4m3fn(value).to(tl.uint8), mask=at < count)


cast_kernel = triton.jit(conversions.cast)


def encode(values: torch.Tensor, block: int = BLOCK) -> torch.Tensor:
    """The e4m3fn codes of a dense bf16, fp16 or fp32 tensor, uint8 in its shape, by kvcheck's own encoder.

    `block` is a power of two. Means what `encode_e4m3fn` means for NaN, infinities and -0.
    """
    codes = torch.empty(values.shape, dtype=torch.uint8, device=values.device)
    encode_into(values, codes, block)
    return codes


def encode_into(values: torch.Tensor, codes: torch.Tensor, block: int = BLOCK) -> None:
    """`encode` of `values` `[n]` into `codes` `[n]`, uint8."""
    count = values.numel()
    if count:
        encode_kernel[(triton.cdiv(count, block),)](values, codes, count, SIZE=block)


def cast_into(values: torch.Tensor, codes: torch.Tensor, block: int = BLOCK) -> None:
    """Triton's own cast to e4m3fn of `values` `[n]` into `codes` `[n]`, uint8; n is a multiple of `block`."""
    cast_kernel[(values.numel() // block,)](values, codes, SIZE=block)


def torch_cast_into(values: torch.Tensor, codes: torch.Tensor) -> None:
    """torch's own cast to e4m3fn of `values` `[n]` into `codes` `[n]`, uint8."""
    codes.copy_(values.to(torch.float8_e4m3fn).view(torch.uint8))
