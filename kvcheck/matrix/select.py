"""Which cases of a matrix to run: `--select` and `--shard`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from kvcheck.errors import SelectionError
from kvcheck.matrix.axes import AXES, unknown_axis
from kvcheck.matrix.ids import axes_of, case_id
from kvcheck.schema import Case

Test: TypeAlias = Callable[[Case], bool]

#: One term and the comma behind it. Explicit strides, the only values with commas, are taken whole.
_TERM = re.compile(r"(?:([^=!,]*)(!?=)([0-9]+,[0-9]+,[0-9]+(?:\+[0-9]+)?|[^,]*)|([^,]*))(?:,|\Z)")
_ID = re.compile(r"[0-9a-f]{4,10}\Z")
_SHARD = re.compile(r"([0-9]{1,9})/([0-9]{1,9})\Z")


def select(cases: Sequence[Case], expressions: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases that some expression selects, in their order; all of them where there is no expression.

    An expression is terms and commas, all of which must hold: an id's first characters (4 or more), `axis=value`,
    `axis!=value`. Raises SelectionError with one line for what cannot be read, and where one selects nothing.
    """
    if not expressions:
        return tuple(cases)
    chosen: set[int] = set()
    for expression in expressions:
        tests = [_test(expression, *term) for term in _terms(expression)]
        found = {index for index, case in enumerate(cases) if all(test(case) for test in tests)}
        if not found:
            raise SelectionError(f"--select {expression}: selects none of {len(cases)} cases")
        chosen |= found
    return tuple(cases[index] for index in sorted(chosen))


def shard(cases: Sequence[Case], part: str) -> tuple[Case, ...]:
    """Return part K of N, for `part` "K/N": the cases whose id falls to it. It may be empty.

    A case stays in its part when others are added. Raises SelectionError unless 1 <= K <= N.
    """
    match = _SHARD.match(part)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise SelectionError(f"--shard {part}: expected K/N with K from 1 to N, such as 1/4")
    index, count = int(match[1]) - 1, int(match[2])
    return tuple(case for case in cases if int(case_id(case), 16) % count == index)


def _terms(expression: str) -> list[tuple[str, str, str, str]]:
    """Return (axis, operator, value, id) of each term, with "" for what a term has not."""
    terms, position = [], 0
    while position <= len(expression):
        match = _TERM.match(expression, position)
        assert match is not None  # the last alternative matches anything up to a comma
        terms.append((match[1] or "", match[2] or "", match[3] or "", match[4] or ""))
        position = match.end() if match[0].endswith(",") else len(expression) + 1
    return terms


def _test(expression: str, name: str, operator: str, value: str, prefix: str) -> Test:
    """Return the test that one term means."""
    if not operator:
        if _ID.match(prefix) is None:
            raise SelectionError(
                f"--select {expression}: {prefix!r} is not a term; "
                "expected axis=value, axis!=value, or 4 to 10 hex digits of an id"
            )
        return lambda case: case_id(case).startswith(prefix)
    if name not in AXES:
        raise SelectionError(f"--select {expression}: {unknown_axis(name)}")
    wanted = AXES[name].parse(value)
    if wanted is None:
        raise SelectionError(f"--select {expression}: {value!r} is not accepted; expected {AXES[name].accepted}")
    return lambda case: (_value(case, name) == wanted) == (operator == "=")


def _value(case: Case, name: str) -> str | int | None:
    return case.dim_v if name == "head_dim_v" else axes_of(case).get(name)
