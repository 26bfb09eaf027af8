"""Many indices as few words: `0-127`, `3,5-7`, `x 0-31 by y 0-1 by z 0`."""

from __future__ import annotations

from collections.abc import Iterable

Index = tuple[int, int, int]

#: Ranges of one axis that are written out; more are counted.
MOST = 6


def ranges(values: Iterable[int], apart: str = ", ") -> str:
    """Sorted ranges of whole numbers: `0, 3-7`. Empty for none."""
    runs: list[list[int]] = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs[:MOST]]
    return apart.join(texts) + (f"{apart}{len(runs) - MOST} more to {runs[-1][1]}" if len(runs) > MOST else "")


def indices(found: Iterable[Index]) -> str:
    """Thread or block indices: x alone where y and z are 0; by axis where they fill a box; else the box they lie in."""
    every = set(found)
    if not every:
        return ""
    axes = [sorted({index[axis] for index in every}) for axis in range(3)]
    if axes[1] == [0] and axes[2] == [0]:
        return ranges(axes[0])
    box = " by ".join(f"{name} {ranges(axis)}" for name, axis in zip("xyz", axes, strict=True))
    filled = len(every) == len(axes[0]) * len(axes[1]) * len(axes[2])
    return box if filled else f"{len(every)} of {box}"
