"""Strings from elsewhere, made safe to print: a target chooses its own name, exceptions and output."""

from __future__ import annotations

import unicodedata

#: Unicode categories that are never printed: controls, formats (bidirectional overrides), surrogates, unassigned.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Cn", "Co"})
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """`text` with tabs as spaces and every control, format or surrogate character but a line feed replaced."""
    cleaned = text.replace("\r\n", "\n").expandtabs(4)
    return "".join(
        character if character == "\n" or unicodedata.category(character) not in _UNPRINTABLE else REPLACEMENT
        for character in cleaned
    )


def one_line(text: str) -> str:
    """`text` on one line: every run of white space is one space, and what cannot be printed is replaced."""
    return " ".join(printable(text).split())


def shorten(text: str, width: int) -> str:
    """`text` on one line of at most `width` characters, the end cut off and marked where it does not fit."""
    line = one_line(text)
    return line if len(line) <= width else line[: width - 3].rstrip() + "..."


def cut(text: str, lines: int, width: int = 160) -> str:
    """At most `lines` lines of at most `width` characters: the first quarter and the last ones, the gap counted."""
    every = [line if len(line) <= width else line[: width - 3] + "..." for line in printable(text).rstrip().split("\n")]
    if len(every) <= lines:
        return "\n".join(every)
    head = lines // 4
    tail = lines - head - 1
    return "\n".join([*every[:head], f"... {len(every) - head - tail} lines left out ...", *every[-tail:]])


def number(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun: `1 case`, `2 cases`; `plural` where it is not the noun with an s."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
