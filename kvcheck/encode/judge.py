"""From what an encoder was seen to do to its differences, the kinds of them, and their names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvcheck.encode.cells import Cells
from kvcheck.encode.classify import Found, classify
from kvcheck.encode.facts import Difference, Dtype, Example, Named
from kvcheck.encode.kinds import KINDS, kinds
from kvcheck.encode.name import behaviour, named
from kvcheck.formats import bits
from kvcheck.formats.spec import Format, Policy

#: Smallest examples that are kept of each kind.
EXAMPLES = 3


@dataclass(frozen=True)
class Judged:
    """The differences of an encoder from the right codes, and what explains them."""

    differ: int
    differences: tuple[Difference, ...]
    faults: tuple[Named, ...]
    behaves: str
    found: Found


def judge(cells: Cells, number_format: Format, declared: Policy, dtype: Dtype = "fp32") -> Judged:
    """Hold an encoder's codes against the bit oracle's under the declared policy. Inputs are held in fp32."""
    patterns = cells.patterns
    want = right(patterns, number_format, declared)
    kind = kinds(patterns, want, cells.got, number_format)
    found = classify(cells, number_format, declared)
    differences = []
    for index, name in enumerate(KINDS):
        rows = np.flatnonzero(kind == index)
        if rows.size:
            examples = tuple(_example(cells, int(row), int(want[row]), dtype) for row in rows[:EXAMPLES])
            differences.append(Difference(name, int(cells.count[rows].sum()), examples))
    wrong = kind >= 0
    return Judged(
        differ=int(cells.count[wrong].sum()),
        differences=tuple(differences),
        faults=named(cells, wrong, want, found, number_format, declared) if wrong.any() else (),
        behaves=behaviour(found),
        found=found,
    )


def right(patterns: npt.NDArray[np.uint32], number_format: Format, declared: Policy) -> npt.NDArray[np.uint8]:
    """The right codes of fp32 patterns under a policy, by the bit oracle."""
    return bits.encode_by(patterns, number_format, declared)


def _example(cells: Cells, row: int, want: int, dtype: Dtype) -> Example:
    """The first input of a row, by its bits in its own dtype."""
    pattern = np.array([cells.first[row]], dtype=np.int64).astype(np.uint32)
    value = pattern.view(np.float32)
    own, shown = int(pattern[0]), str(value[0])
    if dtype == "bf16":
        own >>= 16
    elif dtype == "fp16":
        with np.errstate(invalid="ignore"):
            half = value.astype(np.float16)
        own, shown = int(half.view(np.uint16)[0]), str(half[0])
    if np.isnan(value[0]) and own >> (31 if dtype == "fp32" else 15):
        shown = "-nan"
    return Example(shown, own, int(cells.got[row]), want)
