"""What a matrix did not exercise: the ways of laying out, filling and addressing in which no case was compared.

Told from the cases' axes alone, whatever kernel ran: a fault that needs one of these would have passed unseen. Faults
that kvcheck can name are told of beside it, from what each case could have shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from kvcheck.contract import Contract, Given
from kvcheck.report import axes
from kvcheck.report.axes import Value
from kvcheck.schema import CaseResult, Report, Tensor
from kvcheck.views import Shape, View, view


class Point(msgspec.Struct, frozen=True):
    """A case as its target saw it: every axis, and how K and V lie; None where a view is not known here."""

    axes: dict[str, Value]
    k: View | None
    v: View | None

    def number(self, axis: str) -> int:
        """An axis that is a number."""
        return int(self.axes[axis])

    def either(self, holds: Callable[[View, int], bool]) -> bool:
        """Whether something holds of K's or of V's view and head_dim."""
        sides = ((self.k, self.number("head_dim")), (self.v, self.number("head_dim_v")))
        return any(lies is not None and holds(lies, dim) for lies, dim in sides)

    def values(self, *kinds: str) -> bool:
        """Whether K or V holds one of these kinds of values, times whatever factor."""
        return any(str(self.axes[axis]).partition("*")[0] in kinds for axis in ("k_values", "v_values"))


Holds = Callable[[Point], bool]

#: How K and V lie, and what they hold: asked of stores.
_SOURCE: dict[str, Holds] = {
    "K and V of unlike token pitch": lambda p: (
        p.number("tokens") > 1 and p.k is not None and p.v is not None and p.k.strides[0] != p.v.strides[0]
    ),
    "heads with gaps between them": lambda p: (
        p.number("heads") > 1 and p.either(lambda lies, dim: lies.strides[1] != dim * lies.strides[2])
    ),
    "an inner stride other than 1": lambda p: p.either(lambda lies, dim: dim > 1 and lies.strides[2] != 1),
    "a view that begins inside its tensor": lambda p: p.either(lambda lies, _: lies.offset > 0),
    "more rows than slots": lambda p: p.number("extra_tokens") > 0,
    "NaN or infinity": lambda p: p.values("nan", "inf"),
    "values on and beside rounding ties": lambda p: p.values("midpoints", "traps"),
    "rows of zeros": lambda p: p.values("zero_rows", "all_zero"),
    "subnormal codes": lambda p: p.values("subnormal_codes"),
    "base addresses aligned to less than 16 bytes": lambda p: p.number("align") < 16,
    "K or V redrawn alone": lambda p: p.axes["cross"] != "none",
}

#: Shapes, slots and the cache: asked of every target.
_CACHE: dict[str, Holds] = {
    "more than one token": lambda p: p.number("tokens") > 1,
    "more than one head": lambda p: p.number("heads") > 1,
    "a head_dim that is no power of two": lambda p: p.number("head_dim") & (p.number("head_dim") - 1) != 0,
    "K and V of unlike head_dim": lambda p: p.number("head_dim") != p.number("head_dim_v"),
    "slots out of order": lambda p: p.axes["slots"] not in ("ascending", "all_negative"),
    "int32 slots": lambda p: p.axes["slot_dtype"] == "int32",
    "a strided slot tensor": lambda p: p.axes["slot_view"] != "dense",
    "a cache with gaps between its rows": lambda p: (p.axes["k_cache"], p.axes["v_cache"]) != ("dense", "dense"),
    "caches of K and V that lie unlike": lambda p: (
        p.axes["k_cache"] != p.axes["v_cache"] or p.number("head_dim") != p.number("head_dim_v")
    ),
    "a cache that is one of several layers": lambda p: p.number("layers") > 1,
    "replays of a graph": lambda p: p.axes["launch"] == "graph",
    "poison around K and V": lambda p: p.axes["layout"] == "arena",
}

#: The dtypes of K and V.
DTYPES = ("bf16", "fp16", "fp32")


class Unexercised(msgspec.Struct, frozen=True):
    """What no case exercised, and what only cases did that were not compared, with how those ended."""

    never: tuple[str, ...]
    uncompared: dict[str, dict[str, int]]


def unexercised(report: Report) -> Unexercised:
    """What the matrix of a report did not exercise. All of it where nothing was compared."""
    compared = [_point(case) for case in report.cases if case.codes.compared > 0]
    others = [(_point(case), case.outcome) for case in report.cases if not case.codes.compared]
    never: list[str] = []
    uncompared: dict[str, dict[str, int]] = {}
    for phrase, holds in _asked(report).items():
        if any(holds(point) for point in compared):
            continue
        ended: Counter[str] = Counter(outcome for point, outcome in others if holds(point))
        if ended:
            uncompared[phrase] = dict(ended)
        else:
            never.append(phrase)
    return Unexercised(tuple(never), uncompared)


def _asked(report: Report) -> dict[str, Holds]:
    """The properties that a target of this kind and contract could have been tried with."""
    asked = dict(_CACHE)
    contract = report.target.contract
    if isinstance(contract, Contract):
        asked = {**_SOURCE, **asked, **{f"{dtype} sources": _is_dtype(dtype) for dtype in DTYPES}}
        if isinstance(contract.scale, Given):
            asked["more than one given scale"] = lambda p: (p.axes["k_scale"], p.axes["v_scale"]) != ("2^-3", "2^-3")
        if contract.negative_slots == "skip":
            asked["slots of -1"] = lambda p: p.axes["slots"] in ("negative_mixed", "all_negative")
        if contract.duplicate_slots == "any_row":
            asked["tokens that share a slot"] = lambda p: p.axes["slots"] == "duplicates"
    else:
        asked.pop("poison around K and V")
    if report.target.form.kind in ("packed", "fused"):
        for phrase in ("a cache with gaps between its rows", "caches of K and V that lie unlike"):
            asked.pop(phrase)
    return asked


def _is_dtype(dtype: str) -> Holds:
    return lambda p: p.axes["dtype"] == dtype


def _point(case: CaseResult) -> Point:
    every = axes.complete(case)
    return Point(every, _view("k", every), _view("v", every))


def _view(tensor: Tensor, every: dict[str, Value]) -> View | None:
    """How K or V lies; None for a view that a newer kvcheck knows."""
    dims = {"k": int(every["head_dim"]), "v": int(every["head_dim_v"])}
    tokens = int(every["tokens"]) + int(every["extra_tokens"])
    try:
        shape = Shape(tensor, tokens, int(every["heads"]), dims[tensor], dims["k"], dims["v"])
        return view(str(every[f"{tensor}_view"]), shape)
    except ValueError:
        return None
