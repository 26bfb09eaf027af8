"""Fences: layouts in which every tensor ends, or begins, exactly at addresses that nothing is mapped at."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Literal, TypeAlias

Side: TypeAlias = Literal["end", "begin"]

#: Layouts with fences, and the side of each tensor that its fence is on.
FENCES: dict[str, Side] = {"fence": "end", "fence-before": "begin"}


@dataclass(frozen=True)
class Fenced:
    """`size` bytes at `address`. Nothing is mapped from `low` to `begin`, nor from `end` to `high`.

    Of the mapped bytes around them, up to a page, none is on the fenced side. Where there is none, many are on both.
    """

    address: int
    size: int
    low: int
    begin: int
    end: int
    high: int


def missing() -> str | None:
    """Why there are no fences on a GPU here, one line, or None."""
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
        return "fences on a GPU need NVIDIA's cuda-bindings, which is not installed: pip install 'kvcheck[cuda]'"
    return None
