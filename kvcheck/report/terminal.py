"""What a run shows when it has ended: the groups of the Markdown report, and the files that were written."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvcheck.report import details, exit_codes, sentences
from kvcheck.report.groups import Group, Reason, group_failures, group_reasons
from kvcheck.report.plain import number, one_line
from kvcheck.report.progress import OUTCOME_WIDTH, STYLES, Progress, make_console
from kvcheck.report.traces import told
from kvcheck.report.write import Written
from kvcheck.schema import Report

if TYPE_CHECKING:  # see progress.py
    from rich.console import Console

__all__ = ["Progress", "show", "show_error"]

#: Groups and reasons shown; more are counted.
MOST = 10
#: Reports that a run shows without a line for each at its end, and files that are named one by one.
FEW = 4
#: The lines of a traceback that the terminal shows; the files hold more.
TRACEBACK_LINES = 12
_LABEL_WIDTH = 11


def show(
    reports: Sequence[Report],
    written: Sequence[Written] = (),
    *,
    code: int | None = None,
    strict: bool = False,
    console: Console | None = None,
) -> None:
    """Print the end of a run: each report, its files, and what the exit code `code` means."""
    console = console or make_console()
    alike, phrases = sentences.unexercised_by_all(reports)
    for report in reports:
        console.print()
        _report(console, report, strict=strict, told=phrases)
    if alike or len(reports) > FEW:
        console.print()
    if alike:
        _wrapped(console, alike, "", style="dim")
    if len(reports) > FEW:
        _targets(console, reports, strict=strict)
    if written:
        console.print()
    _files(console, written)
    if code is not None:
        _labelled(console, f"exit {code}", exit_codes.SENTENCES.get(code, ""))


def show_error(error: Exception, console: Console | None = None) -> None:
    """Print an error of the user's in one line, never a stack trace. `console` should write to standard error."""
    console = console or make_console()
    from rich.text import Text  # noqa: PLC0415

    console.print(Text("kvcheck: ", "bold red").append(one_line(str(error))), soft_wrap=True)


def _targets(console: Console, reports: Sequence[Report], *, strict: bool) -> None:
    """A line for each of many reports: how it ended, and its worst group."""
    from rich.text import Text  # noqa: PLC0415

    width = min(max(len(one_line(report.target.name)) for report in reports), 40)
    for report in reports:
        groups = group_failures(report)
        worst = f": {details.title(groups[0])}" if groups else ""
        line = Text(f"  {one_line(report.target.name):<{width}}  ", "bold")
        console.print(
            line.append(sentences.result(report, strict=strict), _style(report, strict=strict)).append(worst),
            no_wrap=True,
            overflow="ellipsis",
        )


def _files(console: Console, written: Sequence[Written]) -> None:
    """The files that were written; of many, the folders that hold them."""
    if len(written) > FEW:
        for place in dict.fromkeys(files.json.parent.parent for files in written):
            count = sum(files.json.parent.parent == place for files in written)
            _labelled(console, "reports", f"{place}/*/report.md and report.json, {count} of each", wrap=False)
        return
    for files in written:
        _labelled(console, "report", str(files.markdown), wrap=False)
        _labelled(console, "", str(files.json), wrap=False)


def _style(report: Report, *, strict: bool) -> str:
    """The colour of how a report ended."""
    code = exit_codes.exit_code(report, strict=strict)
    return {exit_codes.FAILED: "bold red", exit_codes.PASSED: "bold green"}.get(code, "bold yellow")


def _report(console: Console, report: Report, *, strict: bool, told: Sequence[str]) -> None:
    """One report: headline, outcomes, groups of failures, reasons, and what a pass could have seen."""
    from rich.text import Text  # noqa: PLC0415

    style = _style(report, strict=strict)
    head = (
        Text(one_line(report.target.name), "bold").append("  ").append(sentences.result(report, strict=strict), style)
    )
    console.print(head.append(f", {sentences.compared(report)} compared"), soft_wrap=True)
    _wrapped(console, sentences.where(report), "")
    _outcomes(console, report)
    for line in sentences.uncompiled(report):
        console.print()
        _wrapped(console, line, "", style="bold red")
    groups = group_failures(report)
    for group in groups[:MOST]:
        _group(console, group)
    if len(groups) > MOST:
        console.print(f"\n{number(len(groups) - MOST, 'more group')} of failures: see report.md")
    _reasons(console, group_reasons(report))
    console.print()
    notes = sentences.notes(report, strict=strict)
    for note in [*notes, *sentences.unexercised(report, but=told), sentences.unobservable(report)]:
        _wrapped(console, note, "", style="dim")


def _outcomes(console: Console, report: Report) -> None:
    """The outcomes with their counts, right-aligned, where not all cases passed."""
    from rich.text import Text  # noqa: PLC0415

    if set(report.summary) <= {"pass"}:
        return
    console.print()
    width = len(str(max(report.summary.values())))
    for name, cases, why in sentences.table(report):
        line = Text(f"  {name:<{OUTCOME_WIDTH}}", STYLES[name]).append(f"{cases:>{width}}", "bold")
        console.print(line.append(f"  {why}", "dim"), no_wrap=True, overflow="ellipsis")


def _group(console: Console, group: Group) -> None:
    """One group of failures: title, sentence, labelled rows, the end of a traceback, the command that repeats it."""
    from rich.text import Text  # noqa: PLC0415

    console.print()
    outcome, _, rest = details.title(group).partition(", ")
    console.print(Text(outcome, STYLES[group.outcome]).append(f", {rest}", "bold"), soft_wrap=True)
    _wrapped(console, details.sentence(group), "  ")
    for row in details.rows(group):
        _labelled(console, row.label, row.text)
    error = group.example.process.error
    if error and "\n" in error.strip():
        for number_, line in enumerate(told(error, TRACEBACK_LINES, console.width - _LABEL_WIDTH - 4).split("\n")):
            _labelled(console, "" if number_ else "said", line, wrap=False)
    _labelled(console, "repeat", group.repeat, wrap=False)


def _reasons(console: Console, reasons: Sequence[Reason]) -> None:
    """The cases that were not judged, or failed as declared, by reason, with one id each."""
    from rich.text import Text  # noqa: PLC0415

    if reasons:
        console.print()
    width = len(str(max((each.count for each in reasons), default=0)))
    for each in reasons[:MOST]:
        head = f"  {each.outcome:<{OUTCOME_WIDTH}}"
        first, *more = textwrap.wrap(
            f"{each.reason} (e.g. {one_line(each.example)})", max(console.width - OUTCOME_WIDTH - width - 4, 20)
        )
        console.print(Text(head, STYLES[each.outcome]).append(f"{each.count:>{width}}  ", "bold").append(first))
        for line in more:
            console.print(" " * (OUTCOME_WIDTH + width + 4) + line)
    if len(reasons) > MOST:
        console.print(f"  {number(len(reasons) - MOST, 'more reason')}: see report.md")


def _wrapped(console: Console, words: str, indent: str, *, style: str = "none") -> None:
    """A paragraph, every line of it indented."""
    for line in textwrap.wrap(words, max(console.width, 40), initial_indent=indent, subsequent_indent=indent):
        console.print(line, style=style, soft_wrap=True)


def _labelled(console: Console, label: str, words: str, *, wrap: bool = True) -> None:
    """A label and its text beside it, further lines under the text; one long line where it is to be copied."""
    from rich.text import Text  # noqa: PLC0415

    width = max(console.width - _LABEL_WIDTH - 2, 20)
    lines = textwrap.wrap(words, width, break_on_hyphens=False) if wrap else [words]
    for index, line in enumerate(lines):
        head = Text(f"  {'' if index else label:<{_LABEL_WIDTH}}", "dim")
        console.print(head.append(line), soft_wrap=True)
