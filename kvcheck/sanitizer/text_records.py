"""compute-sanitizer's printed records as accesses: what is left of a run whose saved ones are missing or torn.

Text has less than XML, and other versions print it otherwise: what is read from it is never the whole, so that a run of
which there is text alone is never clean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvcheck.sanitizer.words import direction_of, kind_of, known_kind, number, size_of
from kvcheck.sanitizer.xml_records import Records
from kvcheck.schema import SanitizerAccess

#: A line of the tool's own: a record begins at the margin, and what belongs to it is indented.
_LINE = re.compile(r"^={9}(?P<indent> *)(?P<words>\S.*)?$")
_MARGIN = 3

#: `at kernel(int *)+0x90 in /a/k.cu:10`, and `at 0x90 in /a/k.cu:10:kernel(int *)` of versions before 2023.
_PLACE = re.compile(
    r"\bat (?!0x)(?P<kernel>.+?)(?:\+0x[0-9a-f]+)?(?: in (?P<file>[^:]+):(?P<line>[0-9]{1,9}))?(?: \[|$)"
)
_OLD_PLACE = re.compile(r"\bat 0x[0-9a-f]+ in (?P<file>[^:]+):(?P<line>[0-9]{1,9}):(?P<kernel>.+)$")
_ADDRESS = re.compile(r"^(?:Access (?:to|at)|Address) (?P<address>0x[0-9a-f]{1,16})\b")
_WHO = re.compile(r"\b(?P<what>thread|block) \((?P<x>[\d,]+?),(?P<y>\d+),(?P<z>\d+)\)", re.IGNORECASE)
_FRAME = re.compile(r"^Host Frame: ?(?P<func>.+) in (?P<file>[^ ]+):(?P<line>[0-9]{1,9})\b")
_SPACE = re.compile(r"__(\w+?)__")

#: Unknown lines that are kept, and characters of each.
_MOST, _LONGEST = 20, 400


class _Block(NamedTuple):
    """A line at the margin, and the lines that belong to it."""

    head: str
    body: tuple[str, ...]


def parse_text(text: str, tool: str) -> Records:
    """The records of a text. Lines at the margin that are no record, heading or summary are kept as they stood."""
    accesses, unknown = [], []
    for block in _blocks(text.splitlines()):
        if "COMPUTE-SANITIZER" in block.head or "SUMMARY:" in block.head:
            continue
        if known_kind(block.head) is not None:
            accesses.append(_access(block, tool))
        else:
            unknown.append(block.head[:_LONGEST])
    return Records(tuple(accesses), tuple(dict.fromkeys(unknown))[:_MOST])


def _blocks(lines: Sequence[str]) -> Iterator[_Block]:
    head, body = "", list[str]()
    for line in lines:
        found = _LINE.match(line)
        if found is None or not found["words"]:
            continue
        if len(found["indent"]) > _MARGIN:
            body.append(found["words"].strip())
            continue
        if head:
            yield _Block(head, tuple(body))
        head, body = found["words"].strip(), []
    if head:
        yield _Block(head, tuple(body))


def _access(block: _Block, tool: str) -> SanitizerAccess:
    lines = (block.head, *block.body)
    place = _first(_OLD_PLACE, lines) or _first(_PLACE, lines)
    address = _first(_ADDRESS, block.body)
    space = _SPACE.search(block.head)
    return SanitizerAccess(
        tool=tool,
        kind=kind_of(block.head, tool),
        says=block.head,
        access=direction_of(block.head),
        address=number(address["address"]) if address else None,
        size=size_of(block.head),
        kernel=place["kernel"] if place else "",
        file=(place["file"] or "") if place else "",
        line=int(place["line"] or 0) if place else 0,
        block=_index("block", block.body),
        thread=_index("thread", block.body),
        space=space[1] if space else "",
        host=tuple(
            f"{found['file']}:{found['line']} {found['func']}" for line in block.body if (found := _FRAME.match(line))
        ),
    )


def _first(pattern: re.Pattern[str], lines: Sequence[str]) -> re.Match[str] | None:
    return next((found for line in lines if (found := pattern.search(line))), None)


def _index(what: str, lines: Sequence[str]) -> tuple[int, int, int] | None:
    for line in lines:
        for found in _WHO.finditer(line):
            if found["what"].lower() == what:
                x, y, z = (number(found[axis]) for axis in "xyz")
                return None if x is None else (x, y or 0, z or 0)
    return None
