"""Many numbers and programs as few words."""

from __future__ import annotations

from collections.abc import Iterable

#: Separate ranges that are written out.
SHOWN = 6


def ranges(numbers: Iterable[int]) -> str:
    """`0-3, 5, 8-9`: numbers as ranges, the first few of them."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in runs[:SHOWN]]
    return ", ".join([*shown, "..."] if len(runs) > SHOWN else shown)


def programs(indices: Iterable[tuple[int, int, int]]) -> str:
    """Program indices: `0-7`, or `0-7,0-1,0` where there are more axes; several such boxes where one does not do."""
    every = set(indices)
    axes = [{index[axis] for index in every} for axis in range(3)]
    if len(every) == len(axes[0]) * len(axes[1]) * len(axes[2]):
        return _box(axes)
    rows: dict[tuple[int, int], set[int]] = {}
    for x, y, z in every:
        rows.setdefault((y, z), set()).add(x)
    boxes = [_box([xs, {y}, {z}]) for (y, z), xs in sorted(rows.items())]
    return "; ".join([*boxes[:SHOWN], "..."] if len(boxes) > SHOWN else boxes)


def _box(axes: list[set[int]]) -> str:
    texts = [ranges(axis).replace(", ", "+") for axis in axes]
    return texts[0] if axes[1] == axes[2] == {0} else ",".join(texts)


def grouped(number: int) -> str:
    """`7 680`."""
    return f"{number:,}".replace(",", " ")
