"""What a run shows while it runs: a bar, counts and the last failure; or, in a log, a line for each failure."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING

from kvcheck.report import axes, outcomes
from kvcheck.report.details import case_sentence
from kvcheck.report.plain import number, one_line, shorten
from kvcheck.schema import CaseResult, Outcome

if TYPE_CHECKING:  # rich takes 50 ms to import, which `kvcheck --help` does not have
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.text import Text
    from typing_extensions import Self

#: How an outcome is coloured.
STYLES: dict[Outcome, str] = {
    **dict.fromkeys(outcomes.FAILING, "bold red"),
    "inconclusive": "bold yellow",
    "refused": "yellow",
    "unsupported": "cyan",
    "xfail": "green",
    "pass": "green",
}

#: Lines for cases of one outcome and fault, and for all cases, that a log gets; the rest are counted.
ALIKE = 3
LINES = 12

#: The widest outcome and a gap.
OUTCOME_WIDTH = 14


class Progress:
    """A context manager: `.advance(result)` for each case that has ended.

    On a terminal it draws a bar, the counts by outcome and the last failure, and leaves nothing behind. Elsewhere it
    prints one line for each of the first few cases that fail or are inconclusive, and at the end how many more there
    are; never a control character.
    """

    def __init__(self, total: int, title: str, console: Console | None = None) -> None:
        self._total = total
        self._title = one_line(title)
        self._console = console or make_console()
        self._counts: Counter[str] = Counter()
        self._began = time.monotonic()
        self._last: CaseResult | None = None
        self._alike: Counter[tuple[str, str]] = Counter()
        self._told = 0
        self._untold = 0
        self._live: Live | None = None

    def __enter__(self) -> Self:
        from rich.live import Live  # noqa: PLC0415 - see above

        if self._console.is_terminal:
            self._live = Live(get_renderable=self._picture, console=self._console, refresh_per_second=8, transient=True)
            self._live.start()
        else:
            self._console.print(f"{self._title}: {number(self._total, 'case')}", markup=False, soft_wrap=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        elif self._untold:
            more = number(self._untold, "more case")
            self._console.print(f"{more} like these: grouped below, each by itself in report.json", soft_wrap=True)

    def advance(self, result: CaseResult) -> None:
        """Count a case that has ended, and show it where it failed or could not be judged."""
        self._counts[result.outcome] += 1
        if result.outcome in outcomes.FAILING or result.outcome == "inconclusive":
            self._last = result
            if self._live is None:
                self._tell(result)

    def _tell(self, result: CaseResult) -> None:
        """Print a case, unless enough like it, or enough in all, have been printed."""
        alike = result.outcome, result.diagnosis[0].fault if result.diagnosis else ""
        self._alike[alike] += 1
        if self._alike[alike] <= ALIKE and self._told < LINES:
            self._told += 1
            self._console.print(failure_line(result), soft_wrap=True)
        else:
            self._untold += 1

    def _picture(self) -> RenderableType:
        """The bar, the counts and the last failure, a line each, cut to the terminal's width."""
        from rich.console import Group  # noqa: PLC0415
        from rich.progress_bar import ProgressBar  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415

        done = sum(self._counts.values())
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            self._title,
            ProgressBar(total=max(self._total, done, 1), completed=done, width=30),
            f"{done}/{self._total}",
            f"{minutes}:{seconds:02}",
        )
        lines: list[RenderableType] = [bar, counts_line(self._counts)]
        if self._last is not None:
            line = failure_line(self._last)
            line.no_wrap, line.overflow = True, "ellipsis"
            lines.append(line)
        return Group(*lines)


def make_console() -> Console:
    """A console on standard output that marks nothing up by itself. It respects NO_COLOR."""
    import sys  # noqa: PLC0415

    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False, markup=False, emoji=False)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    return console


def counts_line(counts: Counter[str]) -> Text:
    """The outcomes so far with their counts, worst first, on one line."""
    from rich.text import Text  # noqa: PLC0415

    line = Text()
    for outcome in outcomes.ORDER:
        if counts[outcome]:
            line.append(f"{outcome} {counts[outcome]}", STYLES[outcome]).append("  ")
    line.rstrip()
    return line


def failure_line(case: CaseResult) -> Text:
    """A case on one line: outcome, id, the axes that differ from their defaults, what is wrong."""
    from rich.text import Text  # noqa: PLC0415

    line = Text(f"{case.outcome:<{OUTCOME_WIDTH}}", STYLES[case.outcome])
    return line.append(f"{one_line(case.id)}  {axes.in_words(axes.changed(case))}  {shorten(case_sentence(case), 160)}")
