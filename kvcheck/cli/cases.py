"""`kvcheck cases`: what would run."""

from __future__ import annotations

import typer

from kvcheck.cli import options


def cases(files: options.Files = None, select: options.Select = None, shard: options.Shard = None) -> None:
    """List the cases of matrices: id, and the axes that differ from their defaults. Runs nothing."""
    from kvcheck.matrix.ids import axes_of, case_id  # noqa: PLC0415 - numpy stays out of `kvcheck --help`
    from kvcheck.schema import Case  # noqa: PLC0415

    default = axes_of(Case())
    for case in options.cases_of(files or ["default"], select, shard):
        axes = axes_of(case)
        changed = " ".join(f"{name}={value}" for name, value in axes.items() if default.get(name) != value)
        typer.echo(f"{case_id(case)}  {changed or 'all defaults'}")
