"""`kvcheck targets`: what can run, and a first adapter for what cannot yet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from kvcheck.cli import options

Long = Annotated[
    bool, typer.Option("--long", help="Import all, and say what each promises and why it cannot run here if so.")
]
New = Annotated[
    str | None, typer.Option("--new", metavar="NAME", help="Write NAME.py here: an adapter that runs as it is.")
]


def targets(engine_path: options.EnginePaths = None, long: Long = False, new: New = None) -> None:
    """List what `--target` takes: built-in targets and those of installed packages. A file's are FILE.py[::NAME]."""
    if new is not None:
        from kvcheck.targets.new import write_adapter  # noqa: PLC0415

        path = write_adapter(new, Path())
        typer.echo(f"{path} written; try: kvcheck matrix seed --target {path}")
        return

    from kvcheck.targets.engine import ENGINE_PATH, add_engine_roots  # noqa: PLC0415 - stays out of `kvcheck --help`
    from kvcheck.targets.listing import listed  # noqa: PLC0415

    folders = options.engine_folders(engine_path)
    if folders:
        os.environ[ENGINE_PATH] = os.pathsep.join(str(path.resolve()) for path in folders)
        add_engine_roots()
    found = listed(imports=long)
    width = max(len(target.name) for target in found)
    for target in found:
        typer.echo(f"{target.name:{width}}  {target.found}")
        if target.contract is not None:
            typer.echo(f"{'':{width}}    {target.contract}")
        if target.missing is not None:
            typer.echo(f"{'':{width}}    cannot run here: {target.missing}")
