"""`kvcheck compare`: what changed from one report to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compare(
    before: Annotated[Path, typer.Argument(metavar="A", help="A report.json, or its folder.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="The newer one.")],
) -> None:
    """List the cases that changed outcome or bytes between two reports.

    Exit status: 0 nothing got worse; 1 a case got worse, compares fewer codes, or is new and fails; 2 bad usage or
    input; 3 cases of A are missing from B.
    """
    from kvcheck.report.compare import compare as compared  # noqa: PLC0415 - stays out of `kvcheck --help`
    from kvcheck.report.compared import lines  # noqa: PLC0415
    from kvcheck.report.read import read  # noqa: PLC0415

    found = compared(read(before), read(after))
    for line in lines(found):
        typer.echo(line)
    raise typer.Exit(found.exit_code)
