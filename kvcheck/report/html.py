"""Reports as one HTML file that needs nothing beside it: no font, script or picture from elsewhere, and no network.

All text is escaped by the template; what is not are the drawings, which hold numbers alone, and the page's own style
and script.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from kvcheck.report import axes, details, exit_codes, outcomes, sentences
from kvcheck.report.build import ENVIRONMENT
from kvcheck.report.channels import findings
from kvcheck.report.details import Row
from kvcheck.report.drawing import caption, drawing, svg
from kvcheck.report.groups import Group, Reason, group_failures, group_reasons
from kvcheck.report.observable import observable_counts
from kvcheck.report.plain import cut, number, one_line, shorten
from kvcheck.report.traces import told
from kvcheck.schema import CaseResult, Report

if TYPE_CHECKING:  # jinja2 takes 30 ms to import, which `kvcheck --help` does not have
    from jinja2 import Template
    from markupsafe import Markup

#: Groups and reasons that are shown; more are counted. Every case is in the table.
MOST = 40
#: Axes whose counts a group shows.
AXES = 12
TRACEBACK_LINES = 60


class GroupView(msgspec.Struct, frozen=True):
    """A group of failures as the page shows it."""

    outcome: str
    title: str
    says: str
    rows: list[Row]
    evidence: list[Row]
    repeat: str
    axes: list[tuple[str, list[tuple[str, int, int]]]]
    said: str
    open: bool
    sanitizer: str
    drawing: Markup | None
    caption: str


class CaseView(msgspec.Struct, frozen=True):
    """A case as a row of the table. `details` are what opens under its finding; none for a plain pass."""

    id: str
    outcome: str
    rank: int
    axes: list[tuple[str, str]]
    finding: str
    details: list[tuple[str, str]]
    seconds: str
    said: str
    drawing: Markup | None
    caption: str


class PageView(msgspec.Struct, frozen=True):
    """One report as the page shows it."""

    name: str
    ran: str
    tone: str
    worst: str
    result: str
    where: str
    outcomes: list[tuple[str, int, str]]
    facts: list[tuple[str, str]]
    uncompiled: list[tuple[str, str]]
    groups: list[GroupView]
    more_groups: str
    reasons: tuple[Reason, ...]
    notes: list[str]
    observable: list[tuple[str, int]]
    cases: list[CaseView]
    environment: list[tuple[str, str]]
    command: str


def html(reports: Sequence[Report], *, strict: bool = False) -> str:
    """The reports as one HTML document. `strict` says so where legal codes or refused cases fail the run."""
    from markupsafe import Markup  # noqa: PLC0415

    pages = [_page(report, strict=strict) for report in reports]
    title = ", ".join(f"{page.name} {page.result}" for page in pages)
    style, script = (Markup(_part(name)) for name in ("style.css", "script.js"))  # noqa: S704 - the page's own
    return _template().render(pages=pages, title=title, style=style, script=script) + "\n"


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415

    made = Environment(autoescape=True, undefined=StrictUndefined)
    return made.from_string(_part("report.html.j2"))


def _part(name: str) -> str:
    """A file of the page, from beside this module, wherever the package is installed."""
    from importlib.resources import files  # noqa: PLC0415

    return (files("kvcheck.report") / "page" / name).read_text(encoding="utf-8")


def _page(report: Report, *, strict: bool) -> PageView:
    code = exit_codes.exit_code(report, strict=strict)
    groups = group_failures(report)
    counts = observable_counts(report.faults, report.cases)
    notes = [*sentences.notes(report, strict=strict), *sentences.unexercised(report), sentences.unobservable(report)]
    table = sentences.table(report)
    return PageView(
        name=one_line(report.target.name),
        ran=_ran(report),
        tone={exit_codes.FAILED: "fail", exit_codes.PASSED: "ok"}.get(code, "warn"),
        worst=table[0][0] if table else "inconclusive",
        result=f"{sentences.result(report, strict=strict)}, {sentences.compared(report)} compared",
        where=sentences.where(report),
        outcomes=[(outcome, count, why) for outcome, count, why in table],
        facts=_facts(report),
        uncompiled=_uncompiled(report),
        groups=[_group(group) for group in groups[:MOST]],
        more_groups=f"{number(len(groups) - MOST, 'more group')}: see the table." if len(groups) > MOST else "",
        reasons=group_reasons(report)[:MOST],
        notes=notes,
        observable=[(one_line(fault), count) for fault, count in counts.items() if count],
        cases=[_case(case) for case in sorted(report.cases, key=lambda case: outcomes.rank(case.outcome))],
        environment=_environment(report),
        command=one_line(report.command),
    )


def _uncompiled(report: Report) -> list[tuple[str, str]]:
    """The kernels that do not compile for the arch: the line, and all that the compiler said."""
    logs = [cut(fact.log, TRACEBACK_LINES) for fact in report.compiled if fact.outcome == "failed"]
    return list(zip(sentences.uncompiled(report), logs, strict=True))


def _facts(report: Report) -> list[tuple[str, str]]:
    """The figures of a report as a whole."""
    codes = sum(case.codes.compared for case in report.cases)
    wrong = sum(case.codes.wrong for case in report.cases)
    scales = sum(case.scales.compared for case in report.cases)
    judged = sum(case.independence.differs is not None for case in report.cases if case.codes.compared)
    return [
        ("cases compared", f"{sentences.compared(report):,} of {report.planned:,}"),
        ("codes compared", f"{codes:,}"),
        ("codes wrong", f"{wrong:,}"),
        ("scales compared", f"{scales:,}"),
        ("independence judged", f"{judged:,} cases"),
        ("execution", _ran(report)),
    ]


def _ran(report: Report) -> str:
    """Whose machine code ran, and for which arch: reports of one target differ in it."""
    return f"{report.execution} {one_line(report.arch)}"


def _group(group: Group) -> GroupView:
    example = group.example
    error = example.process.error or ""
    rows = [row for row in details.rows(group) if row.label != "counts"]
    picture, under = _drawn(example)
    return GroupView(
        outcome=group.outcome,
        title=details.title(group),
        says=details.sentence(group),
        rows=[row for row in rows if not row.long],
        evidence=[row for row in rows if row.long],
        repeat=group.repeat,
        axes=[
            (one_line(name), [(one_line(value), mine, total) for value, (mine, total) in group.counts[name].items()])
            for name in details.telling(group)[:AXES]
        ]
        if len(group.members) > 1
        else [],
        said=told(error, TRACEBACK_LINES) if error.strip() else "",
        open=example.outcome == "crash",
        sanitizer=cut("\n".join(example.sanitizer), TRACEBACK_LINES) if example.sanitizer else "",
        drawing=picture,
        caption=under,
    )


def _case(case: CaseResult) -> CaseView:
    failed = case.outcome != "pass"
    error = case.process.error or ""
    picture, under = _drawn(case)
    return CaseView(
        id=one_line(case.id),
        outcome=case.outcome,
        rank=outcomes.rank(case.outcome),
        axes=[(one_line(name), one_line(str(value))) for name, value in axes.changed(case).items()],
        finding=_finding(case),
        details=_details(case) if failed else [],
        seconds=f"{case.seconds:.2f}",
        said=told(error, TRACEBACK_LINES) if failed and error.strip() else "",
        drawing=picture,
        caption=under,
    )


def _finding(case: CaseResult) -> str:
    """A case in a line: what is wrong, why it was not judged, or how much was compared."""
    if case.outcome == "pass":
        legal = f", {case.codes.legal} of them legal, not exact" if case.codes.legal else ""
        return f"{number(case.codes.compared, 'code')} compared{legal}" if case.codes.compared else "no code was due"
    if case.outcome in outcomes.FAILING or case.outcome == "xfail":
        return shorten(details.case_sentence(case), 240)
    return one_line(case.reason) or "no reason given"


def _details(case: CaseResult) -> list[tuple[str, str]]:
    """What is known of a case that is no pass; what is empty is left out."""
    found = findings(case)
    tolerance = [
        f"{name} {side.absolute:.3g} {'passes' if side.absolute_pass else 'fails'}"
        for name, side in (("K", case.tolerance.k), ("V", case.tolerance.v))
        if side.absolute is not None
    ]
    diagnoses = "; ".join(details.alternative(found) for found in case.diagnosis)
    known = [
        ("found", found),
        ("reason", "" if found and case.outcome in outcomes.FAILING else one_line(case.reason)),
        ("diagnosis", diagnoses),
        ("tolerance", f"max abs {details.LIMIT}: {', '.join(tolerance)}" if tolerance else ""),
        ("process", one_line(case.process.signal or "")),
        ("copies", ", ".join(f"{one_line(c.tensor)} by {one_line(c.operator)}" for c in case.copies)),
        ("sanitizer", "; ".join(one_line(record) for record in case.sanitizer[:4])),
    ]
    return [(name, text) for name, text in known if text]


def _drawn(case: CaseResult) -> tuple[Markup | None, str]:
    """The drawing of a case's memory and its caption, where a diagnosis says which strides were used."""
    from markupsafe import Markup  # noqa: PLC0415

    made = drawing(case)
    return (None, "") if made is None else (Markup(svg(made)), caption(made))  # noqa: S704 - numbers alone


def _environment(report: Report) -> list[tuple[str, str]]:
    """What the run ran on; what is not known is said to be none."""
    known = {name: report.environment.get(name) for name in ENVIRONMENT}
    facts: dict[str, object] = {
        "target": report.target.name,
        "version": report.target.version,
        "kernels_sha256": report.target.kernels_sha256,
        **{f"sha256 of {name}": value for name, value in report.target.engine_files.items()},
        "kvcheck": report.kvcheck,
        "created": report.created,
        **known,
        **report.environment,
    }
    return [(one_line(name), "none" if value is None else one_line(str(value))) for name, value in facts.items()]
