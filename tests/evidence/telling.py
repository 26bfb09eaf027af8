"""What all evidence is made of and comes to: the reports below a folder, and lines that say whether a bar is met."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kvcheck.report.read import read
from kvcheck.schema import Report


def matrix_reports(folder: Path) -> Iterator[Report]:
    """Every report of `kvcheck matrix` below a folder: what a sanitizer could not look at is no matter of bytes."""
    for path in sorted(folder.rglob("report.json")):
        report = read(path)
        if report.command.startswith("kvcheck matrix"):
            yield report


def tell(found: Iterable[str], problems: Sequence[str]) -> int:
    """Print what was found and what does not hold, a line each; the exit status, 1 where something does not."""
    for line in found:
        sys.stdout.write(f"{line}\n")
    for problem in problems:
        sys.stdout.write(f"missed: {problem}\n")
    sys.stdout.write("all hold\n" if not problems else f"{len(problems)} missed\n")
    return 1 if problems else 0
