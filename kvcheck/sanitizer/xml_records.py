"""compute-sanitizer's saved XML as accesses. What is not known is kept as it stood; what is damaged is said."""

from __future__ import annotations

from typing import NamedTuple
from xml.etree import ElementTree as ET

from kvcheck.sanitizer.words import direction_of, kind_of, known_kind, number, size_of
from kvcheck.schema import SanitizerAccess

#: Elements of a record that are read, or are known to say nothing more.
_KNOWN = frozenset(
    {
        *("kind", "level", "who", "what", "where", "hoststack", "devicestack", "hint", "count", "gridid"),
        *("allocation", "hostaccessstack", "hostmemopstack"),
    }
)

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
    kind = known_kind(says) or ("api" if _find(record, "kind").lower() == "api" else kind_of(says, tool))
    address = _find(record, "what", "address") or _find(record, "what", "accessaddress")
    size = number(_find(record, "what", "size"))
    return SanitizerAccess(
        tool=tool,
        kind=kind,
        says=says,
        access=direction_of(_find(record, "what", "direction") or says),
        address=number(address),
        size=size_of(says) if size is None else size,
        kernel=_find(record, "where", "func"),
        file=_find(record, "where", "path"),
        line=number(_find(record, "where", "line")) or 0,
        block=_index(record, "blockidx"),
        thread=_index(record, "threadidx"),
        space=_find(record, "what", "space").strip("_"),
        host=_frames(record),
    )


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


def _index(record: ET.Element, name: str) -> tuple[int, int, int] | None:
    where = _child(_child(record, "who"), name)
    if where is None:
        return None
    x, y, z = (number(_find(where, axis)) for axis in "xyz")
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
