"""How a run under compute-sanitizer ended: clean only where the tool was seen to attach, to finish and to sum up."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: A line that sums up, and the number that it gives: `ERROR SUMMARY: 1,234 errors`, `1 error`,
#: `RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)`.
#: A number is as the tool writes it, or it is none: damage such as `,`, `0,0` or thousands of digits is no count.
_SUMMARY = re.compile(
    r"^=+\s*(?P<what>[A-Z]+) SUMMARY: (?P<count>0|[1-9][0-9]{0,17}|[1-9][0-9]{0,2}(?:,[0-9]{3}){1,5}) "
    r"(?:error|hazard)s?\b",
    re.MULTILINE,
)

#: A line that sums up, read or not; and one that sums up what leaked, which the summary of errors counts too.
_SUMS_UP = re.compile(r"SUMMARY", re.IGNORECASE)
_LEAKS = re.compile(r"^=+\s*LEAK SUMMARY: [0-9,]+ bytes leaked in [0-9,]+ allocations?$")

#: Lines that say nothing.
_SILENT = re.compile(r"^=*\s*(?:COMPUTE-SANITIZER)?\s*$")

#: Words of the tool's where it could not do its work, or does not say all that it found.
_TROUBLE = (
    "Error: ", "Target application", "Internal Sanitizer", "Internal error", "Unable to find", "No attachable process",
    "imed out", "imed-out", "not supported", "Failed to", "errors were not printed", "errors were skipped",
    "Unknown record type", "Inconsistent record",
)  # fmt: skip


#: Of a variable of the environment that it does not support, and leaves out.
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
    counts = {int(match["count"].replace(",", "")) for match in _SUMMARY.finditer(text) if match["what"] != "LEAK"}
    return counts.pop() if len(counts) == 1 else None


def doubt(ending: Ending, records: int) -> str:
    """Why `records` saved records are not all that there is to say, in one line; empty where they are."""
    if ending.exit is None:
        return "killed at its time limit"
    for words in _TROUBLE:
        line = next((line for line in ending.text.splitlines() if words in line and _HARMLESS not in line), None)
        if line is not None:
            return _said(line)
    if not ending.logged:
        return f"it kept no log; it exited with status {ending.exit}"
    return _summed_up(ending, records)


def _summed_up(ending: Ending, records: int) -> str:
    """How the summary, the records and the exit status contradict each other; empty where they do not."""
    total = counted(ending.text)
    if total is None:
        said = "its summaries differ" if _SUMMARY.search(ending.text) else "it printed no summary"
        return f"{said}; it exited with status {ending.exit}"
    unread = next((line for line in ending.text.splitlines() if _SUMS_UP.search(line) and not _read(line)), None)
    if unread is not None:
        return f"of its summaries one cannot be read: {unread.strip('= ')[:200]}"
    if total != records:
        return f"its summary counts {total}, and {records} were saved"
    if total and ending.exit != ending.found_status:
        return f"its summary counts {total}, and it exited with status {ending.exit}, not {ending.found_status}"
    if not total and ending.exit:
        return f"it found nothing, and the program under it ended with status {ending.exit}"
    # Where it says that it found nothing, whatever else it says is more than that.
    more = None if total else next((line for line in ending.text.splitlines() if not _expected(line)), None)
    return "" if more is None else _said(more)


def _said(line: str) -> str:
    return f"the tool said: {line.strip('= ')[:200]}"


def _read(line: str) -> bool:
    """Whether a line that sums up is one that can be read."""
    return bool(_SUMMARY.match(line) or _LEAKS.match(line))


def _expected(line: str) -> bool:
    """Whether a line is one that a run which found nothing has."""
    return bool(_SILENT.match(line)) or _read(line) or _HARMLESS in line
