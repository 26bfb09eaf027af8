"""What the words of compute-sanitizer's say, whether they stand in XML or in text."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from kvcheck.schema import SanitizerKind

Direction: TypeAlias = Literal["", "read", "write", "atomic"]

#: What a record is of, by the first of these that its words hold.
_KINDS: tuple[tuple[str, SanitizerKind], ...] = (
    ("misaligned", "misaligned"), ("uninitialized", "uninitialised"), ("unused memory", "unused"), ("leak", "leak"),
    ("hazard", "race"), ("race reported", "race"), ("barrier", "barrier"), ("divergent", "barrier"),
    ("assert", "assert"), ("invalid __", "out-of-bounds"), ("out of bounds", "out-of-bounds"),
    ("out-of-bounds", "out-of-bounds"), ("on cuda api call", "api"),
)  # fmt: skip

_BY_TOOL: dict[str, SanitizerKind] = {"initcheck": "uninitialised", "racecheck": "race", "synccheck": "barrier"}

_DIRECTIONS: dict[str, Direction] = {"atomic": "atomic", "write": "write", "read": "read"}


def known_kind(words: str) -> SanitizerKind | None:
    """What a record is of; None where its words are new."""
    lower = words.lower()
    return next((kind for word, kind in _KINDS if word in lower), None)


def kind_of(words: str, tool: str) -> SanitizerKind:
    """What a record is of; where its words are new, what its tool looks for."""
    return known_kind(words) or _BY_TOOL.get(tool, "other")


def direction_of(words: str) -> Direction:
    """What a thread did; empty where the words do not say."""
    found = re.search(r"\b(atomic|write|read)\b", words.lower())
    return _DIRECTIONS[found[1]] if found else ""


def space_of(words: str) -> str:
    """`global` of `Invalid __global__ read`; empty where the words name none."""
    found = re.search(r"__(global|shared|local)__", words)
    return found[1] if found else ""


def size_of(words: str) -> int:
    """Bytes, as in `of size 1,024` and `Leaked 1,024 bytes`; 0 where the words name none."""
    found = re.search(r"(?:of size|Leaked) ([\d,]+)", words)
    return (number(found[1]) or 0) if found else 0


def number(text: str) -> int | None:
    """`0x7f00`, `1,234` or `12`; None for anything else."""
    plain = text.strip().replace(",", "").lower()
    if re.fullmatch(r"0x[0-9a-f]{1,16}", plain):
        return int(plain, 16)
    return int(plain) if re.fullmatch(r"[0-9]{1,19}", plain) else None
