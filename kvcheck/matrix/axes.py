"""The axes of a matrix: for each its default, what it accepts, and one check. They are the fields of `schema.Case`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args, get_type_hints

import msgspec

from kvcheck import views
from kvcheck.contract import Form, Launches
from kvcheck.draw import scales, slots, values
from kvcheck.schema import Case

Value: TypeAlias = str | int

#: How the allocator lays tensors out. A new layout is one more word here.
LAYOUTS = ("arena", "pooled", "recycled", "exact", "fence", "fence-before")
#: Which of K and V is redrawn alone.
CROSSES = ("none", "k", "v")
#: How the target is started: called, or captured once in a graph with other inputs, and replayed.
LAUNCHES = get_args(Launches)
#: How tokens fall into requests.
REQUESTS = ("one",)


@dataclass(frozen=True)
class Axis:
    """One axis. `accepted` completes the sentence "expected …"; `holds` says whether a value of `kind` is accepted."""

    name: str
    kind: type[str | int]
    accepted: str
    holds: Callable[[Value], bool]

    @property
    def default(self) -> Value | None:
        """What a case has where its matrix does not name the axis; None leaves it to the target's form, or to K."""
        value: Value | None = getattr(_DEFAULTS, self.name)
        return value

    def check(self, value: object) -> str | None:
        """Say what was expected where `value` is not accepted, else None."""
        if isinstance(value, bool) or not isinstance(value, self.kind) or not self.holds(value):
            return f"expected {self.accepted}"
        return None

    def parse(self, text: str) -> Value | None:
        """Return the value that `text` spells, or None where it is not accepted."""
        is_number = self.kind is int and re.fullmatch("[0-9]{1,19}", text) is not None
        value: Value = int(text) if is_number else text
        return None if self.check(value) else value


_DEFAULTS = Case()


def _number(name: str, least: int, most: int) -> Axis:
    def holds(value: Value) -> bool:
        return isinstance(value, int) and least <= value <= most

    return Axis(name, int, f"an integer from {least} to {most}", holds)


def _word(name: str, words: Iterable[str]) -> Axis:
    known = tuple(words)
    return Axis(name, str, " or ".join(repr(word) for word in known), lambda value: value in known)


def _spelled(name: str, accepted: str, check: Callable[[str], bool]) -> Axis:
    return Axis(name, str, accepted, lambda value: check(str(value)))


def _literal(owner: type[msgspec.Struct], field: str) -> tuple[str, ...]:
    """Return the words of a Literal field."""
    hint = get_type_hints(owner, localns={"Literal": Literal})[field]
    return get_args(hint)


def _is_alignment(value: Value) -> bool:
    return isinstance(value, int) and 1 <= value <= 4096 and value & (value - 1) == 0


def _is_values(kind: str) -> bool:
    return values.check(kind) is None


def _is_scale(spec: str) -> bool:
    return scales.check(spec) is None


_ALL = (
    _spelled("k_view", views.ACCEPTED, views.is_view),
    _spelled("v_view", views.ACCEPTED, views.is_view),
    _spelled("k_values", values.ACCEPTED, _is_values),
    _spelled("v_values", values.ACCEPTED, _is_values),
    _spelled("k_scale", scales.ACCEPTED, _is_scale),
    _spelled("v_scale", scales.ACCEPTED, _is_scale),
    _number("tokens", 0, 1 << 24),
    _number("extra_tokens", 0, 1 << 24),
    _number("heads", 1, 1 << 12),
    _number("head_dim", 1, 1 << 16),
    _number("head_dim_v", 1, 1 << 16),
    _word("dtype", _literal(Case, "dtype")),
    _spelled("slots", slots.ACCEPTED, lambda kind: slots.check(kind) is None),
    _word("slot_dtype", _literal(Case, "slot_dtype")),
    _word("slot_view", _literal(Case, "slot_view")),
    _word("k_cache", views.CACHE_VIEWS),
    _word("v_cache", views.CACHE_VIEWS),
    _number("layers", 1, 1 << 8),
    _word("layout", LAYOUTS),
    _word("poison", _literal(Case, "poison")),
    _word("order", _literal(Case, "order")),
    _word("form", _literal(Form, "kind")),
    _number("page", 1, 1 << 20),
    _word("requests", REQUESTS),
    _word("cross", CROSSES),
    _word("launch", LAUNCHES),
    Axis("align", int, "a power of two from 1 to 4096, in bytes", _is_alignment),
    _number("seed", 0, (1 << 63) - 1),
)

#: Every axis by name, in the order of `schema.Case`.
AXES: dict[str, Axis] = {axis.name: axis for axis in _ALL}


def unknown_axis(name: str) -> str:
    """Say that `name` is no axis, with the nearest that is one."""
    near = difflib.get_close_matches(name, AXES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the axes are {', '.join(AXES)}"
    return f"unknown axis {name!r}; {hint}"


def build(chosen: Mapping[str, Value]) -> Case:
    """Return the case with these values, already checked, and defaults elsewhere.

    A head_dim_v equal to head_dim is left out: it is the same case.
    """
    case = msgspec.convert(dict(chosen), Case)
    return msgspec.structs.replace(case, head_dim_v=None) if case.head_dim_v == case.head_dim else case
