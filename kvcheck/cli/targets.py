"""`kvcheck targets`: what can run."""

from __future__ import annotations

import typer


def targets() -> None:
    """List the built-in targets. A file's are named FILE.py::NAME."""
    from kvcheck.targets.load import names  # noqa: PLC0415 - nothing but names is imported for `kvcheck --help`

    for name in names():
        typer.echo(name)
