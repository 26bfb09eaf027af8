"""How a run under compute-sanitizer ended: clean only where the tool was seen to attach, to finish and to sum up."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvcheck.sanitizer.text_records import parse_text

#: A line that sums up, and the number that it gives: `ERROR SUMMARY: 1,234 errors`, `1 error`,
#: `RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)`.
#: A number is as the tool writes it, or it is none: damage such as `,`, `0,0` or thousands of digits is no count.
_NUMBER = r"(?:0|[1-9][0-9]{0,17}|[1-9][0-9]{0,2}(?:,[0-9]{3}){1,5})"
_SUMMARY = re.compile(
    rf"^=+\s*[A-Z]+ SUMMARY: (?P<count>{_NUMBER}) (?:errors?|hazards? displayed)"
    rf"(?: \((?P<errors>{_NUMBER}) errors?, (?P<warnings>{_NUMBER}) warnings?\))?\s*$",
    re.MULTILINE,
)

#: A line that sums up, read or not; and one that sums up what leaked, which the summary of errors counts too.
_SUMS_UP = re.compile(r"SUMMARY", re.IGNORECASE)
_LEAKS = re.compile(rf"^=+\s*LEAK SUMMARY: {_NUMBER} bytes leaked in {_NUMBER} allocations?\s*$")

#: Lines that say nothing.
_SILENT = re.compile(r"^=*\s*(?:COMPUTE-SANITIZER)?\s*$")

#: Of a variable of the environment that the tool does not support, and leaves out.
_HARMLESS = "clearing it before"


@dataclass(frozen=True)
class Ending:
    """What tool and program left: their exit status, or None where they were killed; all they printed."""

    exit: int | None
    text: str
    found_status: int
    """The status that the tool was told to exit with where it found something."""
    logged: bool = True
    """Whether the text is the tool's own log; else the program may have printed it."""


def counted(text: str) -> int | None:
    """The number of errors that the summary gives; None where there is none, or where two differ."""
    counts = {_number(match["count"]) for match in _SUMMARY.finditer(text)}
    return counts.pop() if len(counts) == 1 else None


def doubt(ending: Ending, records: int) -> str:
    """Why `records` saved records are not all that there is to say, in one line; empty where they are."""
    if ending.exit is None:
        return "killed at its time limit"
    printed = parse_text(ending.text, "")
    line = next((line for line in printed.unknown if _HARMLESS not in line), None)
    if line is not None:
        return _tool_said(line)
    if not ending.logged:
        return f"it kept no log; it exited with status {ending.exit}"
    return _unread(ending) or _contradicts(ending, records, len(printed.accesses))


def _unread(ending: Ending) -> str:
    """Why the summary says nothing that can be read; empty where it does."""
    if counted(ending.text) is None:
        said = "its summaries differ" if _SUMMARY.search(ending.text) else "it printed no summary"
        return f"{said}; it exited with status {ending.exit}"
    unread = next((line for line in ending.text.splitlines() if _SUMS_UP.search(line) and not _read(line)), None)
    if unread is None:
        return ""
    return _tool_said(unread) if "not printed" in unread else f"a summary of its cannot be read: {_plain(unread)}"


def _contradicts(ending: Ending, records: int, printed: int) -> str:
    """How the summary, the records and the exit status contradict each other; empty where they do not."""
    total = counted(ending.text)
    if total != records:
        return f"its summary counts {total}, and {records} were saved"
    for match in _SUMMARY.finditer(ending.text):
        every = _number(match["errors"] or "0") + _number(match["warnings"] or "0")
        if every > records:
            return f"its summary counts {every} hazards, and {records} were saved"
    if printed not in (0, records):
        return f"its log has {printed} records, and {records} were saved"
    if total and ending.exit != ending.found_status:
        return f"its summary counts {total}, and it exited with status {ending.exit}, not {ending.found_status}"
    if not total and ending.exit:
        return f"it found nothing, and the program under it ended with status {ending.exit}"
    # Where it says that it found nothing, whatever else it says is more than that.
    more = None if total else next((line for line in ending.text.splitlines() if not _expected(line)), None)
    return "" if more is None else _tool_said(more)


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _tool_said(line: str) -> str:
    return f"the tool said: {_plain(line)}"


def _plain(line: str) -> str:
    return line.strip("= ")[:200]


def _read(line: str) -> bool:
    """Whether a line that sums up is one that can be read."""
    return bool(_SUMMARY.match(line) or _LEAKS.match(line))


def _expected(line: str) -> bool:
    """Whether a line is one that a run which found nothing has."""
    return bool(_SILENT.match(line)) or _read(line) or _HARMLESS in line
