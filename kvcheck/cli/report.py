"""`kvcheck report`: a report shown again, in another form."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kvcheck.cli import options
from kvcheck.errors import ReportError

if TYPE_CHECKING:
    from kvcheck.schema import Report

Form = Literal["terminal", "markdown", "html", "junit", "github"]


def report(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="A report.json, its folder, or a folder of reports.")
    ],
    form: Annotated[Form, typer.Option("--to", help="What to make of it.")] = "terminal",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="F", help="Write it here instead of printing it.")
    ] = None,
    strict: options.Strict = False,
) -> None:
    """Show reports again: in the terminal, as Markdown, as one HTML file, as JUnit XML, or to GitHub Actions.

    Nothing is judged again: the exit status is 0 whatever the report says.
    """
    from kvcheck.report.merge import find  # noqa: PLC0415 - stays out of `kvcheck --help`
    from kvcheck.report.write import replace  # noqa: PLC0415

    reports = [found for _, found in find(files)]
    made = _rendered(reports, form, strict=strict, to_file=output is not None)
    if output is not None:
        replace(output, made)
    else:
        try:
            sys.stdout.buffer.write(made)
            sys.stdout.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is buffered fails again at the end
            if not isinstance(error, BrokenPipeError):  # whose reader has seen enough
                raise ReportError(f"standard output: cannot be written: {error.strerror or error}") from error


def _rendered(reports: list[Report], form: Form, *, strict: bool, to_file: bool) -> bytes:
    """The reports in a form, as the bytes of a file."""
    if form == "html":
        from kvcheck.report.html import html  # noqa: PLC0415

        return html(reports, strict=strict).encode()
    if form == "junit":
        from kvcheck.report.junit import junit  # noqa: PLC0415

        return junit(reports, strict=strict)
    if form == "markdown":
        from kvcheck.report.markdown import markdown  # noqa: PLC0415

        return "\n".join(markdown(each, strict=strict) for each in reports).encode()
    if form == "github":
        from kvcheck.report.github import add_summary, workflow_commands  # noqa: PLC0415

        add_summary(reports, os.environ, strict=strict)
        return "".join(f"{line}\n" for line in workflow_commands(reports, os.environ, strict=strict)).encode()
    return _terminal(reports, strict=strict, to_file=to_file)


def _terminal(reports: list[Report], *, strict: bool, to_file: bool) -> bytes:
    """What `kvcheck matrix` showed at its end; printed at once where it goes to the terminal, for its colours."""
    from kvcheck.report.terminal import show  # noqa: PLC0415

    if not to_file:
        show(reports, strict=strict)
        return b""
    from io import StringIO  # noqa: PLC0415

    from rich.console import Console  # noqa: PLC0415

    text = StringIO()
    show(reports, strict=strict, console=Console(file=text, width=100, highlight=False, markup=False, emoji=False))
    return text.getvalue().encode()
