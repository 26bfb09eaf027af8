"""What an encoder was seen to do, condensed: how many inputs of each cell got each code, and the first of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.encode.steps import MAGNITUDE, points
from kvcheck.formats.spec import Format

Integers: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Cells:
    """Each row: inputs between two neighbouring `points` that got one code. Rows of a cell may be several."""

    #: The cell's own first fp32 pattern, by which models are asked
    cell: Integers
    #: The code that these inputs got
    got: Codes
    #: How many inputs
    count: Integers
    #: The least of their fp32 patterns
    first: Integers

    def __len__(self) -> int:
        """How many rows."""
        return len(self.cell)

    @property
    def patterns(self) -> npt.NDArray[np.uint32]:
        """`cell` as fp32 bit patterns."""
        return self.cell.astype(np.uint32)

    @property
    def inputs(self) -> int:
        """How many inputs there were in all."""
        return int(self.count.sum())

    def where(self, chosen: npt.NDArray[np.bool_]) -> Cells:
        """Some of the rows."""
        return Cells(self.cell[chosen], self.got[chosen], self.count[chosen], self.first[chosen])


def of_samples(patterns: npt.NDArray[np.uint32], codes: Codes, number_format: Format) -> Cells:
    """Cells of single inputs, in any order: their fp32 patterns and the codes that they got."""
    found = patterns.astype(np.int64)
    return _gathered(found, codes, np.ones_like(found), number_format)


def of_runs(starts: Integers, codes: Codes, end: int, number_format: Format) -> Cells:
    """Cells of all inputs from `starts[0]` to below `end`: `codes[i]` is that of every one from `starts[i]` on."""
    inner = points(number_format)
    inner = inner[(inner > starts[0]) & (inner < end)]
    cut = np.union1d(starts, inner)
    code = codes[np.searchsorted(starts, cut, side="right") - 1]
    return _gathered(cut, code, np.diff(np.append(cut, end)), number_format)


def merged(parts: list[Cells]) -> Cells:
    """Cells of several sets of inputs as one. No input may be in two of them."""
    return _summed(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("cell", "got", "count", "first"))
    )


def _gathered(patterns: Integers, codes: Codes, counts: Integers, number_format: Format) -> Cells:
    grid = points(number_format)
    return _summed(grid[np.searchsorted(grid, patterns, side="right") - 1], codes, counts, patterns)


def _summed(cell: Integers, got: Codes, count: Integers, first: Integers) -> Cells:
    """Rows of equal cell and code as one, in the order of magnitudes, the positive ones first."""
    keys, row = np.unique(cell << 8 | got, return_inverse=True)
    totals = np.zeros(len(keys), dtype=np.int64)
    np.add.at(totals, row, count)
    least = np.full(len(keys), 1 << 32, dtype=np.int64)
    np.minimum.at(least, row, first)
    order = np.lexsort((least >> 31, least & int(MAGNITUDE)))
    return Cells((keys >> 8)[order], (keys & 0xFF).astype(np.uint8)[order], totals[order], least[order])
