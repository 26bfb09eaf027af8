"""Every fp32 input through a model of an arch's cast, in blocks of 2^24, each a digest to compare with a GPU's."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from kvcheck.errors import SelectionError
from kvcheck.formats import bits
from kvcheck.lowering.archs import Source, cast_model

Patterns32 = npt.NDArray[np.uint32]

#: Blocks of all 2^32 fp32 bit patterns, and the patterns in each.
BLOCKS = 256
BLOCK = 1 << 24


def block_patterns(block: int) -> Patterns32:
    """The 2^24 fp32 bit patterns whose upper byte is `block`, ascending. Raises ValueError outside 0 … 255."""
    if not 0 <= block < BLOCKS:
        raise ValueError(f"block {block} is not one of 0 to {BLOCKS - 1}")
    return np.arange(block * BLOCK, (block + 1) * BLOCK, dtype=np.int64).astype(np.uint32)


def half_patterns(source: Source) -> Patterns32:
    """All 2^16 values of bf16 or fp16, in the order of their own bit patterns, as the fp32 patterns they widen to."""
    every = np.arange(1 << 16, dtype=np.uint32)
    if source == "bf16":
        shifted: Patterns32 = every << np.uint32(16)
        return shifted
    if source == "fp16":
        widened: npt.NDArray[np.float32] = every.astype(np.uint16).view(np.float16).astype(np.float32)
        return widened.view(np.uint32)
    raise ValueError(f"{source} has more than 2^16 values; use block_patterns")


def model_codes(
    arch: str, patterns: Patterns32, source: Source = "fp32", *, triton: str | None = None
) -> npt.NDArray[np.uint8]:
    """The e4m3fn codes that the model of `arch` gives for fp32 bit patterns, widened from `source`, in their shape.

    `triton` is the version whose compiler is modelled, which is the installed one unless it is given. Raises
    SelectionError, one line, for an arch that is unknown or has no model, with the reason.
    """
    model = cast_model(arch, triton)
    rounding = model.rounding(source)
    if rounding is None:
        raise SelectionError(str(model.reason))
    return bits.encode(patterns, rounding=rounding)


def digest(codes: npt.NDArray[np.uint8]) -> str:
    """The SHA-256 of codes, one byte each, in hexadecimal."""
    return hashlib.sha256(np.ascontiguousarray(codes).data).hexdigest()


def model_digest(arch: str, block: int, *, triton: str | None = None) -> str:
    """The digest of the codes of `block_patterns(block)` by the model of `arch`. Raises as `model_codes` does."""
    return digest(model_codes(arch, block_patterns(block), triton=triton))
