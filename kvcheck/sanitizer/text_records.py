"""compute-sanitizer's printed records as accesses: beside the saved ones, or in their place where those are torn.

Other versions print it otherwise: of a run of which there is text alone nobody knows whether that is all. It has one
thing that the XML has not: a kernel's name in full, with the namespace that it is of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvcheck.sanitizer.words import direction_of, kind_of, known_kind, number, size_of, space_of
from kvcheck.sanitizer.xml_records import Records
from kvcheck.schema import SanitizerAccess

#: A line of the tool's own: a record begins at the margin, and what belongs to it is indented.
_LINE = re.compile(r"^={9}(?P<indent> *)(?P<words>\S.*)?$")
_MARGIN = 3

#: `at kernel(int *)+0x90 in /a/k.cu:10`, and `at 0x90 in /a/k.cu:10:kernel(int *)` of versions before 2023.
_PLACE = re.compile(
    r"\b(?:at|Device Frame:) (?P<kernel>(?!0x).+?)\+0x[0-9a-f]+(?: in (?P<file>[^:]+):(?P<line>[0-9]{1,9}))?(?= \[|$)"
)
_OLD_PLACE = re.compile(r"\bat 0x[0-9a-f]+ in (?P<file>[^:]+):(?P<line>[0-9]{1,9}):(?P<kernel>.+)$")

#: `Access to 0x7f00 is out of bounds`, `Address 0x7f00`, `Leaked 256 bytes at 0x7f00`, `detected at __shared__ 0x47c`.
_ADDRESS = re.compile(
    r"^(?:Access (?:to|at)|Address|Leaked .* at|Uninitialized access to|.* detected at __\w+__) (0x[0-9a-f]{1,16})\b"
)
_COPY = re.compile(r"host access to (0x[0-9a-f]{1,16})\b")
_WHO = re.compile(r"\b(?P<what>thread|block) \((?P<x>[\d,]+?),(?P<y>\d+),(?P<z>\d+)\)", re.IGNORECASE)
_HAZARDS = re.compile(r"\[([\d,]+) hazards?\]")
_FRAME = re.compile(r"^Host Frame: ?(?P<func>.+) in (?P<file>[^ ]+):(?P<line>[0-9]{1,9})\b")

#: Of the path of a toolkit's header; see the XML's.
_HEADERS = "/include/"

#: Lines that are kept of what is no record, and characters of each.
_MOST, _LONGEST = 20, 400


#: Lines that say something else than what a thread did.
_SAID = ("Saved ", "Device Frame:", "Host Frame:", "Current Value")


class _Block(NamedTuple):
    """A line at the margin, and the lines that belong to it."""

    head: str
    body: tuple[str, ...]


def parse_text(text: str, tool: str) -> Records:
    """The records of a text. Lines at the margin that are no record, heading or summary are kept as they stood."""
    accesses, unknown = [], []
    for block in _blocks(text.splitlines()):
        if "COMPUTE-SANITIZER" in block.head or "SUMMARY" in block.head:
            continue
        if _is_record(block):
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


def _is_record(block: _Block) -> bool:
    """Whether its words are known, or it says which thread did it: a trap has words of its own."""
    beside = ("by thread ", "Uninitialized access to ")
    return known_kind(block.head) is not None or any(line.startswith(beside) for line in block.body)


def _access(block: _Block, tool: str) -> SanitizerAccess:
    lines = (block.head, *block.body)
    places = [found for line in lines if (found := _OLD_PLACE.search(line) or _PLACE.search(line))]
    frames = [each for each in places if each.string.startswith("Device Frame:")]
    place = next((each for each in places if _HEADERS not in (each["file"] or "")), places[0] if places else None)
    addresses = [found[1] for line in lines if (found := _ADDRESS.match(line))]
    address = number(addresses[0]) if addresses else None
    hazards = _HAZARDS.search(" ".join(lines))
    # Whether an access is misaligned, or a copy's was uninitialised, stands beside its address.
    beside = " ".join(line for line in block.body if _ADDRESS.match(line))
    kind = known_kind(beside) or kind_of(block.head, tool)
    # Of two threads that race, the line of each says what it did.
    words = next((line for line in lines if direction_of(line) and not line.startswith(_SAID)), "")
    return SanitizerAccess(
        tool=tool,
        kind=kind,
        says=block.head,
        access=direction_of(words) or ("read" if kind == "uninitialised" else ""),
        address=address,
        size=_size(block.head, address),
        kernel=(frames or places)[-1 if frames else 0]["kernel"] if places else "",
        file=(place["file"] or "") if place else "",
        line=int(place["line"] or 0) if place else 0,
        block=_index("block", lines),
        thread=_index("thread", lines),
        space=space_of(block.head),
        count=(number(hazards[1]) or 1) if hazards else 1,
        host=tuple(
            f"{found['file']}:{found['line']} {found['func']}" for line in block.body if (found := _FRAME.match(line))
        ),
    )


def _size(head: str, address: int | None) -> int:
    """Bytes of an access; of a copy those from the wrong address on."""
    begin = _COPY.search(head)
    if begin is None or address is None:
        return size_of(head)
    return max((number(begin[1]) or 0) + size_of(head) - address, 0)


def _index(what: str, lines: Sequence[str]) -> tuple[int, int, int] | None:
    for line in lines:
        for found in _WHO.finditer(line):
            if found["what"].lower() == what:
                x, y, z = (number(found[axis]) for axis in "xyz")
                return None if x is None else (x, y or 0, z or 0)
    return None
