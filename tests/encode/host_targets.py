"""Encoders of torch alone. Loaded as a file, never imported."""

from __future__ import annotations

import torch

from kvcheck import EncoderContract, encoder_target


@encoder_target("int8", contract=EncoderContract(format="int8"))
def int8(x: torch.Tensor, out: torch.Tensor) -> None:
    """Round to nearest even, NaN to zero."""
    codes = torch.nan_to_num(x, nan=0.0).clamp(-127, 127).round().to(torch.int8)
    out.copy_(codes.view(torch.uint8))


@encoder_target("int8-truncated", contract=EncoderContract(format="int8", nan="undefined"))
def int8_truncated(x: torch.Tensor, out: torch.Tensor) -> None:
    """An implicit conversion truncates."""
    codes = torch.nan_to_num(x, nan=0.0).clamp(-127, 127).to(torch.int8)
    out.copy_(codes.view(torch.uint8))


@encoder_target("clamps-first", contract=EncoderContract(overflow="undefined", nan="undefined"))
def clamps_first(x: torch.Tensor, out: torch.Tensor) -> None:
    """torch's cast of what its caller has clamped."""
    out.copy_(x.to(torch.float8_e4m3fn).view(torch.uint8))
