"""compute-sanitizer's saved XML as accesses. What is not known is kept as it stood; what is damaged is said."""

from __future__ import annotations

from typing import NamedTuple
from xml.etree import ElementTree as ET

from kvcheck.sanitizer.words import direction_of, kind_of, known_kind, number, size_of, space_of
from kvcheck.schema import SanitizerAccess

#: Elements of a record that are read, or are known to say nothing more.
_KNOWN = frozenset(
    {
        *("kind", "level", "who", "what", "where", "hoststack", "devicestack", "hint", "count", "gridid"),
        *("allocation", "hostaccessstack", "hostmemopstack"),
    }
)

#: Of the path of a toolkit's header: atomicAdd and its kin stand there, and the line that calls them is a kernel's.
_HEADERS = "/include/"

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
    what = _child(record, "what")
    says = _says(record, what)
    kind = known_kind(says) or ("api" if _find(record, "kind").lower() == "api" else kind_of(says, tool))
    common, first = _child(what, "common"), _first(what) if what is not None else None
    frames = [_child(record, "where") if first is None else _child(first, "where"), *_frames(record, "devicestack")]
    place = next((frame for frame in frames if _HEADERS not in _find(frame, "path")), frames[0])
    address = number(_any(what, "address", "erroraddress", "accessaddress") or _any(common, "address"))
    size = number(_any(what, "size", "accesssize"))
    begin = number(_any(what, "accessaddress"))
    if size is not None and address is not None and begin is not None:  # of a copy: what is wrong lies somewhere in it
        size = max(begin + size - address, 0)
    # What nobody has stored can only have been read, by a copy of the host's too.
    words = _any(what, "direction") or _any(first, "direction", "access") or says
    return SanitizerAccess(
        tool=tool,
        kind=kind,
        says=says,
        access=direction_of(words) or ("read" if kind == "uninitialised" else ""),
        address=address,
        size=size_of(says) if size is None else size,
        kernel=_find(frames[-1], "func"),
        file=_find(place, "path"),
        line=number(_find(place, "line")) or 0,
        block=_index(_child(record, "who"), "blockidx") or _index(common, "blockidx"),
        thread=_index(_child(record, "who"), "threadidx") or _index(first, "threadidx"),
        space=_find(record, "what", "space").strip("_") or space_of(says) or ("shared" if common is not None else ""),
        count=number(_find(_child(what, "destination"), "count")) or 1,
        host=_host(record),
    )


def _says(record: ET.Element, what: ET.Element | None) -> str:
    """Its words: `Barrier error: Invalid arguments`, `Race condition: write at /a/k.cu:15, read at /a/k.cu:15`."""
    words = _any(what, "text", "exception") or _find(record, "what") or _find(record, "kind")
    sides = [each for name in ("source", "destination") if (each := _child(what, name)) is not None]
    of = ", ".join(
        f"{_find(side, 'direction').lower()} at {_find(side, 'where', 'path')}:{_find(side, 'where', 'line')}"
        for side in sides
    )
    more = of or (_find(record, "what", "type") if words.lower() == "barrier error" else "")
    return f"{words}: {more}" if words and more else words or "a record without words"


def _first(what: ET.Element) -> ET.Element | None:
    """Of two accesses that race, the first; None of a record of one."""
    source = _child(what, "source")
    return _child(what, "thread0") if source is None else source


def _child(element: ET.Element | None, name: str) -> ET.Element | None:
    if element is None:
        return None
    return next((child for child in element if child.tag.lower() == name), None)


def _any(element: ET.Element | None, *names: str) -> str:
    """The text of the first of these children that has any."""
    return next((text for name in names if (text := _find(element, name))), "")


def _find(element: ET.Element | None, *path: str) -> str:
    """The text of an element below another; empty where it has none."""
    for name in path:
        element = _child(element, name)
    return (element.text or "").strip() if element is not None else ""


def _index(who: ET.Element | None, name: str) -> tuple[int, int, int] | None:
    where = _child(who, name)
    if where is None:
        return None
    x, y, z = (number(_find(where, axis)) for axis in "xyz")
    return None if x is None else (x, y or 0, z or 0)


def _frames(record: ET.Element, name: str) -> list[ET.Element]:
    """The frames of a stack, the innermost first."""
    stack = _child(record, name)
    return [] if stack is None else [child for child in stack if child.tag.lower() == "frame"]


def _host(record: ET.Element) -> tuple[str, ...]:
    """Host frames whose file is known, the launch's first."""
    return tuple(
        f"{_find(frame, 'path')}:{_find(frame, 'line')} {_find(frame, 'func')}"
        for frame in _frames(record, "hoststack")
        if _find(frame, "path")
    )


def _text_of(element: ET.Element) -> str:
    try:
        return ET.tostring(element, encoding="unicode").strip()[:_LONGEST]
    except RecursionError:  # It writes what lies within by calling itself, and reads it without.
        return f"<{element.tag}>, nested too deeply to be shown"[:_LONGEST]
