"""A compiler's many lines as one."""

from __future__ import annotations

import re

#: Characters of one line that are kept.
_LONGEST = 300


def one_line(text: str) -> str:
    """The line that says what is wrong: the first that names an error, else the last. Empty where there is none."""
    lines = [line.strip() for line in text.splitlines() if re.search(r"\w", line)]
    telling = [line for line in lines if re.search(r"not supported|[Uu]nsupported|\b[Ee]rror\s*:|requires", line)]
    return (telling or lines[-1:] or [""])[0][:_LONGEST]


def described(error: BaseException) -> str:
    """An exception in one line: its kind and what it says, by the first of the chain that led to it."""
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    said = one_line(str(first))
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
