"""One case as a person would explain it: what went wrong, where it lies in memory, and the arithmetic of its codes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvcheck.contract import Contract
from kvcheck.errors import ReportError
from kvcheck.report import axes
from kvcheck.report.arithmetic import arithmetic
from kvcheck.report.channels import findings
from kvcheck.report.details import LIMIT, alternative, case_sentence
from kvcheck.report.drawing import Drawing, Row, caption, drawing
from kvcheck.report.firsts import first_code
from kvcheck.report.plain import one_line
from kvcheck.report.repeat import repeat
from kvcheck.schema import CaseResult, Report, Tolerance

#: Characters of the longest lane of a drawing, and rows whose addresses are said.
WIDE, ROWS = 72, 4
_TOKENS = "0123456789abcdef"


def pick(found: Sequence[tuple[Path, Report]], identifier: str, target: str | None) -> tuple[Path, Report, CaseResult]:
    """The one case, of all reports, whose id begins with `identifier`, in the report of `target` where one is named.

    An id that is the whole of `identifier` goes before those that it begins. Raises ReportError where no case is so,
    or several are.
    """
    every = [
        (path, report, case)
        for path, report in found
        if target is None or report.target.name == target
        for case in report.cases
        if case.id.startswith(identifier)
    ]
    chosen = [each for each in every if each[2].id == identifier] or every
    if len(chosen) == 1:
        return chosen[0]
    name, where = one_line(identifier), f" of target {one_line(target)}" if target else ""
    if not chosen:
        raise ReportError(f"case {name!r}: in none of the {len(found)} reports{where} read; expected a case's id")
    some = ", ".join(f"{one_line(case.id)} in {one_line(str(path))}" for path, _, case in chosen[:3])
    more = f" and {len(chosen) - 3} more" if len(chosen) > 3 else ""
    raise ReportError(f"case {name!r} is ambiguous: {some}{more}; expected a longer id, --target or one --report")


def explain(report: Report, case: CaseResult, kept: Path | None) -> str:
    """A case of a report as plain text, made of the report alone; `kept` is where its emission lies, if anywhere."""
    title = f"{one_line(case.id)}: {case.outcome}, {one_line(report.target.name)}, {one_line(report.arch)}"
    parts = [
        f"{title}\n{axes.in_words(axes.changed(case))}",
        _what(case),
        _memory(case),
        _codes(report, case),
        _tolerance(case),
        f"From the report alone. {_emission(kept)}",
        f"Repeat\n  {repeat(report, case.id)}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def emission(report: Path, case: CaseResult) -> Path | None:
    """Where the emission of a case lies, beside its report; None where none was kept."""
    file = (report if report.is_dir() else report.parent) / "cases" / f"{case.id}.msgpack"
    return file if file.is_file() else None


def _emission(kept: Path | None) -> str:
    return f"All that the case stored: {one_line(str(kept))}" if kept else "What the case stored was not kept."


def _what(case: CaseResult) -> str:
    """The diagnosis, what it is weighed against, and the channels' own findings."""
    found = findings(case)
    if case.outcome == "pass":
        none = "No code was due: only that nothing else was touched is known."
        return f"What happened\n  {'Every byte that was judged is right.' if case.codes.compared else none}"
    lines = [case_sentence(case)]
    lines += [f"{alternative(each)}{' (first)' if each is case.diagnosis[0] else ''}" for each in case.diagnosis]
    lines += [found] if found and found != lines[0] else []
    lines += [one_line(case.reason)] if case.reason and not found else []
    return "What happened\n" + "\n".join(f"  {line}" for line in dict.fromkeys(lines))


def _memory(case: CaseResult) -> str:
    """The drawing, and where the first rows that were read elsewhere lie."""
    made = drawing(case)
    if made is None:
        return ""
    wrong = [(due, read) for due, read in zip(made.due, made.read, strict=True) if due != read]
    lines = [caption(made), *text(made)]
    lines += [
        f"token {due.token}: due {due.start} to {due.stop - 1}, read {read.start} to {read.stop - 1}"
        for due, read in wrong[:ROWS]
    ]
    lines += [f"and {len(wrong) - ROWS} more rows"] if len(wrong) > ROWS else []
    return "Memory\n" + "\n".join(f"  {line}" for line in lines)


def text(made: Drawing) -> list[str]:
    """The drawing in characters, to scale: a lane of the rows due, one of those read, and the tensor they lie in.

    A row is its token's number in hexadecimal; `*` is where rows overlap or are too narrow to be told apart.
    """
    every = (*made.due, *made.read)
    low = min(0, *(row.start for row in every))
    high = max(made.elements, *(row.stop for row in every))

    def column(element: int) -> int:
        return (element - low) * WIDE // (high - low)

    def lane(rows: Sequence[Row]) -> str:
        cells = ["."] * WIDE
        for row in rows:
            first, last = column(row.start), max(column(row.stop), column(row.start) + 1)
            for at in range(first, min(last, WIDE)):
                mark = _TOKENS[row.token % len(_TOKENS)]
                cells[at] = mark if cells[at] in (".", mark) else "*"
        return "".join(cells)

    inside = "".join("=" if column(0) <= at < column(made.elements) else " " for at in range(WIDE))
    return [
        f"due     {lane(made.due)}",
        f"read    {lane(made.read)}",
        f"tensor  {inside.rstrip()}",
        f"        {low} to {high - 1}, the tensor's own 0 to {made.elements - 1}",
    ]


def _codes(report: Report, case: CaseResult) -> str:
    """The first wrong code and its arithmetic; nothing where no code is wrong."""
    first = case.codes.first
    if first is None:
        return ""
    lines = [first_code(first)]
    if isinstance(report.target.contract, Contract):
        lines += [f"  {line}" for line in arithmetic(report.target.contract, first)]
    return "The first wrong code\n" + "\n".join(f"  {line}" for line in lines)


def _tolerance(case: CaseResult) -> str:
    """What a usual test would have said of K and of V; nothing where no code was compared."""
    if not case.codes.compared:
        return ""
    sides = (("K", case.tolerance.k, case.codes.k_wrong), ("V", case.tolerance.v, case.codes.v_wrong))
    lines = [f"  {name}: {_would_have_said(side)}; {wrong} of its codes are wrong" for name, side, wrong in sides]
    return f"A test with a tolerance (max abs {LIMIT})\n" + "\n".join(lines)


def _would_have_said(side: Tolerance) -> str:
    if side.absolute is None or side.absolute_pass is None:
        return "not finite, no answer"
    return f"{side.absolute:.3g}, {'would have passed' if side.absolute_pass else 'would have failed'}"
