"""compute-sanitizer's saved XML as accesses. What is not known is kept as it stood; what is damaged is said."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias
from xml.etree import ElementTree as ET

from kvcheck.schema import SanitizerAccess, SanitizerKind

Direction: TypeAlias = Literal["", "read", "write", "atomic"]

#: Elements of a record that are read, or are known to say nothing more.
_KNOWN = frozenset(
    {
        *("kind", "level", "who", "what", "where", "hoststack", "devicestack", "hint", "count", "gridid"),
        *("allocation", "hostaccessstack", "hostmemopstack"),
    }
)

#: What a record is of, by the first of these that its words hold.
_KINDS: tuple[tuple[str, SanitizerKind], ...] = (
    ("misaligned", "misaligned"), ("uninitialized", "uninitialised"), ("unused memory", "unused"), ("leak", "leak"),
    ("hazard", "race"), ("race", "race"), ("barrier", "barrier"), ("divergent", "barrier"), ("assert", "assert"),
    ("invalid __", "out-of-bounds"), ("out of bounds", "out-of-bounds"), ("out-of-bounds", "out-of-bounds"),
    ("api call", "api"),
)  # fmt: skip

_BY_TOOL: dict[str, SanitizerKind] = {"initcheck": "uninitialised", "racecheck": "race", "synccheck": "barrier"}

#: Unknown parts that are kept, and characters of each.
_MOST, _LONGEST = 20, 400


class DamagedError(Exception):
    """The file is not what the tool writes: one line says why."""


class Records(NamedTuple):
    """What a file holds."""

    accesses: tuple[SanitizerAccess, ...]
    unknown: tuple[str, ...]


def parse(xml: bytes, tool: str) -> Records:
    """The records of a file. Raises DamagedError for one that is empty, cut off, or of another kind."""
    if not xml.strip():
        raise DamagedError("no records were saved: the file is empty or was never written")
    if b"<!DOCTYPE" in xml or b"<!ENTITY" in xml:
        raise DamagedError("the saved records declare entities, which the tool never does")
    try:
        root = ET.fromstring(xml)  # noqa: S314 - the tool's own output; what could expand was refused above
    except (ET.ParseError, ValueError, LookupError) as error:
        raise DamagedError(f"the saved records are no XML: {error}") from error
    if root.tag.lower() != "computesanitizeroutput":
        raise DamagedError(f"the saved records are in <{root.tag}>; expected <ComputeSanitizerOutput>")
    accesses, unknown = [], []
    for element in root:
        if element.tag.lower() != "record":
            unknown.append(_text_of(element))
            continue
        accesses.append(_access(element, tool))
        unknown += [_text_of(child) for child in element if child.tag.lower() not in _KNOWN]
    return Records(tuple(accesses), tuple(dict.fromkeys(unknown))[:_MOST])


def _access(record: ET.Element, tool: str) -> SanitizerAccess:
    says = _find(record, "what", "text") or _find(record, "what") or _find(record, "kind") or "a record without words"
    words = says.lower()
    kind = next((kind for word, kind in _KINDS if word in words), None)
    if kind is None:
        kind = "api" if _find(record, "kind").lower() == "api" else _BY_TOOL.get(tool, "other")
    address = _find(record, "what", "address") or _find(record, "what", "accessaddress")
    size = _number(_find(record, "what", "size"))
    if size is None:
        found = re.search(r"of size ([\d,]+)", says)
        size = _number(found[1]) if found else 0
    return SanitizerAccess(
        tool=tool,
        kind=kind,
        says=says,
        access=_direction(_find(record, "what", "direction") or words),
        address=_number(address),
        size=size or 0,
        kernel=_find(record, "where", "func"),
        file=_find(record, "where", "path"),
        line=_number(_find(record, "where", "line")) or 0,
        block=_index(record, "blockidx"),
        thread=_index(record, "threadidx"),
        space=_find(record, "what", "space").strip("_"),
        host=_frames(record),
    )


def _direction(words: str) -> Direction:
    directions: tuple[Direction, ...] = ("atomic", "write", "read")
    return next((word for word in directions if word in words.lower()), "")


def _child(element: ET.Element | None, name: str) -> ET.Element | None:
    if element is None:
        return None
    return next((child for child in element if child.tag.lower() == name), None)


def _find(record: ET.Element, *path: str) -> str:
    """The text of an element below a record; empty where it has none."""
    element: ET.Element | None = record
    for name in path:
        element = _child(element, name)
    return (element.text or "").strip() if element is not None else ""


def _number(text: str) -> int | None:
    """`0x7f00`, `1,234` or `12`; None for anything else."""
    plain = text.strip().replace(",", "").lower()
    if re.fullmatch(r"0x[0-9a-f]{1,16}", plain):
        return int(plain, 16)
    return int(plain) if re.fullmatch(r"[0-9]{1,19}", plain) else None


def _index(record: ET.Element, name: str) -> tuple[int, int, int] | None:
    where = _child(_child(record, "who"), name)
    if where is None:
        return None
    x, y, z = (_number(_find(where, axis)) for axis in "xyz")
    return None if x is None else (x, y or 0, z or 0)


def _frames(record: ET.Element) -> tuple[str, ...]:
    """Host frames whose file is known, the launch's first."""
    stack = _child(record, "hoststack")
    frames = [] if stack is None else [child for child in stack if child.tag.lower() == "frame"]
    return tuple(
        f"{_find(frame, 'path')}:{_find(frame, 'line')} {_find(frame, 'func')}"
        for frame in frames
        if _find(frame, "path")
    )


def _text_of(element: ET.Element) -> str:
    try:
        return ET.tostring(element, encoding="unicode").strip()[:_LONGEST]
    except RecursionError:  # It writes what lies within by calling itself, and reads it without.
        return f"<{element.tag}>, nested too deeply to be shown"[:_LONGEST]
