"""What the stand-ins compute with: torch on the CPU, whose fp32 quotients are IEEE's."""

from __future__ import annotations

import torch
from torch import Tensor


def largest(rows: Tensor) -> Tensor:
    """The largest magnitude of each row of the last axis, in fp32, NaNs ignored."""
    magnitudes = rows.float().abs()
    return torch.where(torch.isnan(magnitudes), torch.zeros_like(magnitudes), magnitudes).amax(dim=-1)


def over(values: Tensor, number: float) -> Tensor:
    """The IEEE quotients of fp32 values and a number. A Python float would be multiplied by its reciprocal on a GPU."""
    return values / torch.full_like(values, number)


def e4m3(values: Tensor) -> Tensor:
    """Codes of fp32 values, uint8: to nearest even, saturated, 0x7F for every NaN, 0x80 for -0."""
    codes = values.clamp(-448.0, 448.0).to(torch.float8_e4m3fn).view(torch.uint8)
    return torch.where(torch.isnan(values), torch.full_like(codes, 0x7F), codes)


def int8(values: Tensor) -> Tensor:
    """Codes of fp32 values, int8: to nearest even, saturated at ±127, 0 for NaN."""
    return torch.nan_to_num(values, nan=0.0).round().clamp(-127.0, 127.0).to(torch.int8)


def dense(tensor: Tensor) -> tuple[int, ...]:
    """The strides that a tensor of that shape has when nothing lies between its elements."""
    strides, count = [], 1
    for size in reversed(tensor.shape):
        strides.append(count)
        count *= size
    return tuple(reversed(strides))
