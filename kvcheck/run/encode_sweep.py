"""Every input, or a sample of them, through an encoder on a device, condensed to cells.

An encoder's codes of ascending patterns are a few hundred runs of one code each. The device finds where they begin;
only those leave it. An encoder whose runs are too many is counted by cell there instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from kvcheck.encode.cells import Cells, merged, of_runs, of_samples
from kvcheck.encode.facts import Dtype
from kvcheck.encode.probes import sample
from kvcheck.encode.steps import points
from kvcheck.formats.spec import Format
from kvcheck.lowering.sweep import half_patterns

Encode: TypeAlias = Callable[[torch.Tensor, torch.Tensor], None]
Watch: TypeAlias = Callable[[int, torch.Tensor], None]

#: How many inputs of fp32 there are, and how many of bf16 and of fp16.
ALL, HALF = 1 << 32, 1 << 16
#: Inputs at a time on a GPU (320 MiB of values and codes), and on the CPU.
CHUNK, CPU_CHUNK = 1 << 26, 1 << 22
#: Runs of a chunk beyond which cells are counted on the device.
MANY = 1 << 20
#: What codes are filled with before an encoder's first call: no right code of most inputs.
PREFILL = 0xA5

TORCH: dict[Dtype, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def every(
    encode: Encode, number_format: Format, device: torch.device, *, chunk: int | None = None, watch: Watch | None = None
) -> Cells:
    """The cells of all 2^32 fp32 inputs, ascending as unsigned patterns, `chunk` at a time.

    `encode(values, codes)` gets fp32 values `[chunk]` and uint8 codes `[chunk]` that hold the chunk before's. `watch`
    is called with each chunk's first pattern and its codes, on the device. Raises what `encode` raises.
    """
    size = chunk or (CHUNK if device.type == "cuda" else CPU_CHUNK)
    parts = []
    for start, values, codes in _chunks(size, device):
        encode(values, codes)
        if watch is not None:
            watch(start, codes)
        parts.append(_cells(start, codes, number_format))
    return merged(parts)


class Against:
    """Counts, on the device, the codes that differ from another encoder's: what `every` may watch with."""

    def __init__(self, reference: Encode) -> None:
        """`reference(values, codes)` gives the codes to compare with."""
        self._reference = reference
        self._counts: list[torch.Tensor] = []
        self._lower = self._patterns = self._want = torch.empty(0)

    def __call__(self, start: int, codes: torch.Tensor) -> None:
        """Compare the codes of consecutive inputs from the pattern `start` on."""
        if self._want.numel() != codes.numel():
            self._lower = torch.arange(codes.numel(), dtype=torch.int32, device=codes.device)
            self._patterns, self._want = torch.empty_like(self._lower), torch.empty_like(codes)
        torch.add(self._lower, start - ALL if start >= ALL // 2 else start, out=self._patterns)
        self._reference(self._patterns.view(torch.float32), self._want)
        self._counts.append(torch.count_nonzero(codes != self._want))

    def differ(self) -> int:
        """How many codes differ, of all compared so far."""
        return int(torch.stack(self._counts).sum()) if self._counts else 0


def _chunks(size: int, device: torch.device) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Each chunk's first pattern, its values, and memory for its codes, which is the same every time."""
    lower = torch.arange(size, dtype=torch.int32, device=device)
    patterns = torch.empty_like(lower)
    codes = torch.full((size,), PREFILL, dtype=torch.uint8, device=device)
    for start in range(0, ALL, size):
        # Made anew each time: an encoder that writes to its input spoils one chunk, not the rest.
        torch.add(lower, start - ALL if start >= ALL // 2 else start, out=patterns)
        yield start, patterns.view(torch.float32), codes


def _cells(start: int, codes: torch.Tensor, number_format: Format) -> Cells:
    """The cells of consecutive inputs from the pattern `start` on."""
    begins = torch.ones(codes.numel(), dtype=torch.bool, device=codes.device)
    torch.ne(codes[1:], codes[:-1], out=begins[1:])
    if codes.device.type == "cuda" and int(torch.count_nonzero(begins)) > MANY:
        return _counted(start, codes, number_format)
    at = begins.nonzero().flatten()
    return of_runs(at.cpu().numpy() + start, codes[at].cpu().numpy(), start + codes.numel(), number_format)


def _counted(start: int, codes: torch.Tensor, number_format: Format) -> Cells:
    """The same by counting on the device: for encoders whose code changes with almost every input."""
    grid = torch.from_numpy(points(number_format).copy()).to(codes.device)
    patterns = torch.arange(start, start + codes.numel(), dtype=torch.int64, device=codes.device)
    keys = (torch.bucketize(patterns, grid, right=True) - 1) * 256 + codes
    bins = grid.numel() * 256
    counts = torch.bincount(keys, minlength=bins)
    first = torch.full((bins,), ALL, dtype=torch.int64, device=codes.device).scatter_reduce_(0, keys, patterns, "amin")
    used = counts.nonzero().flatten()
    cell = grid[used // 256].cpu().numpy()
    got = (used % 256).cpu().numpy().astype(np.uint8)
    return Cells(cell, got, counts[used].cpu().numpy(), first[used].cpu().numpy())


def some(encode: Encode, number_format: Format, device: torch.device) -> Cells:
    """The cells of a sample of the fp32 inputs: `kvcheck.encode.probes.sample`."""
    return _given(encode, sample(number_format), number_format, device)


def halves(encode: Encode, number_format: Format, device: torch.device, dtype: Dtype) -> Cells:
    """The cells of all 2^16 inputs of bf16 or fp16."""
    every_half = torch.arange(HALF, dtype=torch.int32).to(torch.int16).view(TORCH[dtype]).to(device)
    codes = torch.full((HALF,), PREFILL, dtype=torch.uint8, device=device)
    encode(every_half, codes)
    assert dtype != "fp32", "fp32 has more than 2^16 inputs"
    return of_samples(half_patterns(dtype), codes.cpu().numpy(), number_format)


def _given(encode: Encode, patterns: npt.NDArray[np.uint32], number_format: Format, device: torch.device) -> Cells:
    """The cells of given fp32 inputs, their number filled up to a multiple of 2^16 for the encoder's sake."""
    padded = np.zeros(-(-patterns.size // HALF) * HALF, dtype=np.uint32)
    padded[: patterns.size] = patterns
    values = torch.from_numpy(padded.view(np.int32)).to(device).view(torch.float32)
    codes = torch.full((padded.size,), PREFILL, dtype=torch.uint8, device=device)
    encode(values, codes)
    return of_samples(patterns, codes.cpu().numpy()[: patterns.size], number_format)
