"""`kvcheck doctor`: what this machine is, and what that means for the checks."""

from __future__ import annotations

import typer


def doctor(json: bool = typer.Option(False, "--json", help="Print the findings as JSON.")) -> None:
    """Measure what this machine's GPU, compiler, torch and interpreter do, and say what that means for the checks.

    Nothing is judged: the exit status is 0 whatever is found.
    """
    import msgspec  # noqa: PLC0415 - stays out of `kvcheck --help`

    from kvcheck.lowering.doctor import examine  # noqa: PLC0415

    found = examine()
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
        return
    for finding in found:
        typer.echo(f"{finding.name}: {finding.value}\n    {finding.means}")
