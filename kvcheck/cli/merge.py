"""`kvcheck merge`: the shards of a run, put together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvcheck.cli import options


def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders that the shards wrote their reports to.")
    ],
    out: options.Out = Path("reports"),
    strict: options.Strict = False,
) -> None:
    """Put the reports of shards together, one for each target and arch, and write them.

    A case that two shards have must have ended alike, with the same bytes. Exit status: as of one run over all cases;
    3 where a shard is missing.
    """
    from kvcheck.report.exit_codes import exit_code  # noqa: PLC0415 - stays out of `kvcheck --help`
    from kvcheck.report.merge import carry_emissions, find  # noqa: PLC0415
    from kvcheck.report.merge import merge as merged  # noqa: PLC0415
    from kvcheck.report.terminal import show  # noqa: PLC0415
    from kvcheck.report.write import Written, write  # noqa: PLC0415

    found = find(folders)
    reports = merged(found)
    written: list[Written] = []
    for report in reports:
        written.append(write(report, out, strict=strict, taken=[files.json.parent for files in written]))
        carry_emissions(found, report, written[-1].json.parent)
    code = exit_code(reports, strict=strict)
    show(reports, written, code=code, strict=strict)
    raise typer.Exit(code)
