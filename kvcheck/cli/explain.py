"""`kvcheck explain`: one case, told as at a whiteboard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def explain(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="A case's id, or the begin of one.")],
    report: Annotated[
        Path, typer.Option("--report", metavar="PATH", help="A report.json, its folder, or a folder of reports.")
    ] = Path("reports"),
    target: Annotated[str | None, typer.Option("--target", metavar="T", help="The target whose case is meant.")] = None,
) -> None:
    """Explain one case of a report: its cause, the rows read against those due, and the arithmetic of its first code.

    Nothing is run or judged again. Exit status: 0; 2 where there is no such case, or more than one.
    """
    from kvcheck.report.explain import emission, pick  # noqa: PLC0415 - stays out of `kvcheck --help`
    from kvcheck.report.explain import explain as told  # noqa: PLC0415
    from kvcheck.report.merge import find  # noqa: PLC0415

    path, found, case = pick(find([report]), identifier, target)
    typer.echo(told(found, case, emission(path, case)), nl=False)
