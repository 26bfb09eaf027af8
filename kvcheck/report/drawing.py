"""A tensor's memory drawn to scale: the rows that were due against the rows that were read.

Made of a diagnosis that says which strides the kernel used (`strides_used`, `strides_declared` in its evidence, in
elements for token, head and dim) and of the case's axes alone: no emission is needed.
"""

from __future__ import annotations

import msgspec

from kvcheck.report import axes
from kvcheck.schema import CaseResult, Diagnosis, Tensor
from kvcheck.views import Shape, view

#: Tokens and heads of a token that are drawn; more are said.
TOKENS, HEADS = 16, 16
#: The drawing's width and its lanes, in SVG units.
WIDTH, LEFT = 1000, 92
DUE, READ, TALL = 30, 108, 24
HEIGHT = 176
#: The least width at which a row can be seen.
THIN = 1.5


class Row(msgspec.Struct, frozen=True):
    """The elements from `start` to `stop` of a tensor's memory, of one token and of one head or all that adjoin."""

    token: int
    start: int
    stop: int


class Drawing(msgspec.Struct, frozen=True):
    """What is drawn: elements count from the first of the tensor that K or V is a view of, `elements` long."""

    tensor: Tensor
    elements: int
    due: tuple[Row, ...]
    read: tuple[Row, ...]
    tokens: int
    shown: int

    @property
    def wrong(self) -> int:
        """How many of the rows that were read are not those that were due."""
        return sum(due != read for due, read in zip(self.due, self.read, strict=True))

    @property
    def outside(self) -> int:
        """How many of the rows that were read end outside the tensor."""
        return sum(row.start < 0 or row.stop > self.elements for row in self.read)


def drawing(case: CaseResult) -> Drawing | None:
    """The first diagnosis of a case that says which strides were used, as a drawing; None where none does."""
    return next((made for found in case.diagnosis if (made := _drawing(case, found)) is not None), None)


def _drawing(case: CaseResult, found: Diagnosis) -> Drawing | None:
    used, declared = (_strides(found, name) for name in ("strides_used", "strides_declared"))
    if used is None or declared is None or found.tensor not in ("k", "v"):
        return None
    tensor: Tensor = "k" if found.tensor == "k" else "v"
    every = axes.complete(case)
    dim = int(every["head_dim" if tensor == "k" else "head_dim_v"])
    tokens, heads = int(every["tokens"]), int(every["heads"])
    shape = Shape(
        tensor, tokens + int(every["extra_tokens"]), heads, dim, int(every["head_dim"]), int(every["head_dim_v"])
    )
    try:
        lies = view(str(every[f"{tensor}_view"]), shape)
    except ValueError:
        return None
    shown = min(tokens, TOKENS)
    one_run = all(_adjoin(strides, heads, dim) for strides in (used, declared))
    parts = 1 if one_run else min(heads, HEADS)
    due, read = (
        tuple(
            _row(
                token, lies.offset + token * strides[0] + head * strides[1], strides[2], dim * heads if one_run else dim
            )
            for token in range(shown)
            for head in range(parts)
        )
        for strides in (declared, used)
    )
    return Drawing(tensor, lies.elements, due, read, tokens, shown) if due else None


def _strides(found: Diagnosis, name: str) -> tuple[int, int, int] | None:
    value = found.evidence.get(name)
    return (value[0], value[1], value[2]) if isinstance(value, list) and len(value) == 3 else None


def _adjoin(strides: tuple[int, int, int], heads: int, dim: int) -> bool:
    return heads == 1 or strides[1] == dim * strides[2]


def _row(token: int, start: int, inner: int, count: int) -> Row:
    last = start + (count - 1) * inner
    return Row(token, min(start, last), max(start, last) + 1)


def caption(made: Drawing) -> str:
    """What the drawing shows, in words."""
    name = made.tensor.upper()
    some = f" The first {made.shown} of {made.tokens} tokens." if made.shown < made.tokens else ""
    out = f", {made.outside} of them not wholly inside {name}'s tensor" if made.outside else ""
    wrong = f"{made.wrong} of {len(made.read)} rows read are not those due"
    return f"{name} in memory, to scale, in elements: {wrong}{out}.{some}"


def svg(made: Drawing) -> str:
    """The drawing as an SVG element. Nothing in it comes from elsewhere but numbers; its colours are the page's."""
    ends = [0, *(end for row in (*made.due, *made.read) for end in (row.start, row.stop))]
    low, high = min(ends), max(*ends, min(made.elements, 2 * max(ends)))
    scale = (WIDTH - LEFT - 12) / max(high - low, 1)

    def x(element: int) -> float:
        return round(LEFT + (element - low) * scale, 1)

    box_right = min(x(made.elements), WIDTH - 4)
    parts = [
        f'<svg class="drawing" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{caption(made)}">',
        f'<rect class="box" x="{x(0)}" y="14" width="{max(box_right - x(0), THIN):.1f}" height="134" rx="4"/>',
        f'<text class="lane" x="{LEFT - 10}" y="{DUE + 16}" text-anchor="end">due</text>',
        f'<text class="lane" x="{LEFT - 10}" y="{READ + 16}" text-anchor="end">read</text>',
    ]
    links: list[str] = []
    labels: list[str] = []
    taken: dict[int, float] = {}
    boxes: dict[str, list[str]] = {}
    for due, read in zip(made.due, made.read, strict=True):
        kind = "same" if due == read else "out" if read.start < 0 or read.stop > made.elements else "off"
        boxes.setdefault("due", []).append(_box(x(due.start), x(due.stop), DUE))
        boxes.setdefault(kind, []).append(_box(x(read.start), x(read.stop), READ))
        from_, to = (x(due.start) + x(due.stop)) / 2, (x(read.start) + x(read.stop)) / 2
        links.append(f"M{from_:.1f} {DUE + TALL}L{to:.1f} {READ}")
        for top, row in ((DUE, due), (READ, read)):
            labels += _label(row.token, x(row.start), x(row.stop), top, taken)
    parts += [f'<path class="{kind}" d="{"".join(each)}"/>' for kind, each in boxes.items()]
    ticks = [f'<text class="tick" x="{x(end)}" y="168" text-anchor="middle">{end}</text>' for end in _ticks(low, high)]
    marks = "".join(f"M{x(end)} 148v5" for end in _ticks(low, high))
    return "".join(
        [
            *parts,
            f'<path class="link" d="{"".join(links)}"/>',
            *labels,
            f'<path class="link" d="{marks}"/>',
            *ticks,
            "</svg>",
        ]
    )


def _box(left: float, right: float, top: int) -> str:
    """One row, as a closed part of a path."""
    width = max(right - left - 1, THIN)
    return f"M{left} {top}h{width:.1f}v{TALL}h{-width:.1f}z"


def _label(token: int, left: float, right: float, top: int, taken: dict[int, float]) -> list[str]:
    """The token's number in a row, where there is room and none stands there yet; `taken` is each lane's last place."""
    middle, room = (left + right) / 2, 7.0 * (len(str(token)) + 1)
    if right - left < room or abs(middle - taken.get(top, -WIDTH)) < room:
        return []
    taken[top] = middle
    return [f'<text class="token" x="{middle:.1f}" y="{top + 16}" text-anchor="middle">{token}</text>']


def _ticks(low: int, high: int) -> list[int]:
    """Round places from `low` to `high`, at most ten: multiples of 1, 2 or 5 times a power of ten."""
    steps = (factor * 10**power for power in range(19) for factor in (1, 2, 5))
    step = next(step for step in steps if (high - low) / step <= 9)
    return list(range(-(-low // step) * step, high + 1, step))
