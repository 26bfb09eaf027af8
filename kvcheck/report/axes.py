"""The axes of a case as a report shows them: all of them, and those that differ from their defaults."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from kvcheck.report.plain import one_line
from kvcheck.schema import Case, CaseResult

Value: TypeAlias = "str | int"

#: Shown where an axis has no value of its own: the target's form, the form's page.
UNSET = "default"

#: Every axis with its default, in the order in which they are shown.
DEFAULTS: dict[str, Value | None] = msgspec.to_builtins(Case())


def complete(case: CaseResult) -> dict[str, Value]:
    """Every axis of a case, defaults filled in; V's head_dim is K's unless it is given."""
    axes = {name: UNSET if default is None else default for name, default in DEFAULTS.items()} | case.axes
    if "head_dim_v" not in case.axes:
        axes["head_dim_v"] = axes["head_dim"]
    return axes


def changed(case: CaseResult) -> dict[str, Value]:
    """The axes of a case that differ from their defaults, in the order of the axes; unknown ones last."""
    names = [*DEFAULTS, *(name for name in case.axes if name not in DEFAULTS)]
    default = complete(msgspec.structs.replace(case, axes={}))
    default["head_dim_v"] = complete(case)["head_dim"]
    return {name: case.axes[name] for name in names if name in case.axes and case.axes[name] != default.get(name)}


def in_words(axes: dict[str, Value]) -> str:
    """Axes as `k_view=qkv tokens=9`; `every axis at its default` where there is none."""
    return (
        " ".join(f"{one_line(name)}={one_line(str(value))}" for name, value in axes.items())
        or "every axis at its default"
    )


def size(case: CaseResult) -> int:
    """The number of elements of K: tokens times heads times head_dim."""
    axes = complete(case)
    return int(axes["tokens"]) * int(axes["heads"]) * int(axes["head_dim"])
