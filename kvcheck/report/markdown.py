"""A report as Markdown, fit for a pull request on GitHub: short where all is well, worst first where it is not."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvcheck.report import details, sentences
from kvcheck.report.build import ENVIRONMENT
from kvcheck.report.groups import Group, Reason, group_failures, group_reasons
from kvcheck.report.observable import observable_counts
from kvcheck.report.plain import cut, number, one_line, printable, shorten
from kvcheck.report.traces import told
from kvcheck.schema import Report

#: A comment on GitHub holds 65 536 characters. Groups shown in full, and the characters they may take together;
#: further groups, and reasons, that are named in one line each; the characters of a sentence.
FULL = 8
FULL_CHARACTERS = 40_000
BRIEF = 20
SENTENCE = 1000
TRACEBACK_LINES = 40
#: Axes whose counts a group shows.
AXES = 8

_SPECIAL = re.compile(r"[\\`*|\[\]~$]|(?<![^\W_])_|_(?![^\W_])")
_STARTS_BLOCK = re.compile(r"\A(\d*)([#+=.)-])")


def markdown(report: Report, *, strict: bool = False) -> str:
    """The report as Markdown. `strict` says so where legal codes or refused cases fail the run."""
    parts = [
        _headline(report, strict=strict),
        _outcomes(report),
        _uncompiled(report),
        *_failures(group_failures(report)),
        _reasons(group_reasons(report)),
        _observable(report, strict=strict),
        _environment(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def text(words: str) -> str:
    """`words` as one line of prose: nothing in it is markup, a mention, or the start of a list or heading."""
    line = one_line(words).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = _SPECIAL.sub(lambda match: "\\" + match[0], line).replace("@", "@<!-- -->")
    return _STARTS_BLOCK.sub(r"\1\\\2", line)


def code(words: str, *, in_table: bool = False) -> str:
    """`words` as inline code, whatever backticks it holds. A table takes its pipes escaped, code elsewhere does not."""
    line = one_line(words)
    if not line:
        return ""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{pad}{line.replace('|', chr(92) + '|') if in_table else line}{pad}{fence}"


def block(words: str, language: str = "") -> str:
    """`words` as a code block that nothing in it can close."""
    cleaned = printable(words)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", cleaned)), default=0))
    return f"{fence}{language}\n{cleaned}\n{fence}"


def folded(summary: str, body: str) -> str:
    """A part that GitHub shows folded. `summary` is Markdown-free."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _headline(report: Report, *, strict: bool) -> str:
    """What ran, how it ended, how many cases were compared; then where it ran."""
    ended = text(f"{sentences.result(report, strict=strict)}, {sentences.compared(report)} compared")
    return f"### kvcheck: {code(report.target.name)}, {ended}\n\n{text(sentences.where(report))}"


def _outcomes(report: Report) -> str:
    """A table of outcomes; empty where every case passed."""
    if set(report.summary) <= {"pass"}:
        return ""
    return _table(
        ("outcome", "cases", ""), ((name, str(cases), why) for name, cases, why in sentences.table(report)), "-:-"
    )


def _uncompiled(report: Report) -> str:
    """The kernels that do not compile for the arch, with all that the compiler said, folded."""
    logs = [cut(fact.log, TRACEBACK_LINES) for fact in report.compiled if fact.outcome == "failed" and fact.log.strip()]
    lines = [f"- {text(shorten(line, SENTENCE))}" for line in sentences.uncompiled(report)]
    parts = [
        "\n".join(lines),
        *([folded("What the compiler said", block("\n\n".join(logs[:3]), "text"))] if logs else []),
    ]
    return "\n\n".join(["#### A kernel does not compile", *parts]) if lines else ""


def _table(head: tuple[str, ...], lines: Iterable[tuple[str, ...]], alignment: str) -> str:
    """A table; `alignment` has `:` for each column that is aligned right."""
    rule = ["--:" if mark == ":" else "---" for mark in alignment]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, tuple(rule), *lines))


def _failures(groups: tuple[Group, ...]) -> list[str]:
    """The groups of failures, worst first: as many in full as have room, others in one line each, the rest counted."""
    full: list[str] = []
    for group in groups[:FULL]:
        part = _group(group)
        if sum(map(len, full)) + len(part) > FULL_CHARACTERS:
            break
        full.append(part)
    others = groups[len(full) :]
    brief = [
        f"- {text(details.title(group))}: {code(group.example.id)}, {text(shorten(details.sentence(group), 160))}"
        for group in others[:BRIEF]
    ]
    if len(others) > BRIEF:
        brief.append(f"- {number(len(others) - BRIEF, 'more group')}: see `report.json`")
    return [*full, "\n".join(brief)]


def _group(group: Group) -> str:
    """One group: its sentence, its rows, the command that repeats its example; all that is long, folded."""
    rows = [row for row in details.rows(group) if row.label != "counts"]
    parts = [
        f"#### {text(details.title(group))}",
        text(shorten(details.sentence(group), SENTENCE)),
        _rows(row for row in rows if not row.long),
        block(group.repeat, "sh"),
    ]
    more = [_rows(row for row in rows if row.long), _counts(group), *_said(group)]
    inner = "\n\n".join(part for part in more if part)
    return "\n\n".join([*parts, *([folded("More of this group", inner)] if inner else [])])


def _rows(rows: Iterable[details.Row]) -> str:
    """Labelled lines as a list."""
    lines = ((row, shorten(row.text, SENTENCE)) for row in rows)
    return "\n".join(f"- **{row.label}**: {code(line) if row.code else text(line)}" for row, line in lines)


def _counts(group: Group) -> str:
    """How many of the judged cases failed so, by axis value; empty where no axis varies."""
    lines = [(code(name, in_table=True), code(line, in_table=True)) for name, line in details.counts(group)]
    if not lines or len(group.members) == 1:
        return ""
    return _table(("axis", "cases of this group / cases judged, by value"), lines[:AXES], "--")


def _said(group: Group) -> list[str]:
    """What the example's process said: own frames first, and the sanitizer's records."""
    example = group.example
    parts = []
    if example.process.error and example.process.error.strip():
        said = told(example.process.error, TRACEBACK_LINES)
        parts += [f"What the process said ({code(example.id)}):", block(said, "text")]
    if example.sanitizer:
        parts += ["Sanitizer records:", block(cut("\n".join(example.sanitizer), TRACEBACK_LINES), "text")]
    return parts


def _reasons(reasons: tuple[Reason, ...]) -> str:
    """The cases that were not judged, or failed as declared, by reason."""
    if not reasons:
        return ""
    lines = [
        f"- {each.outcome}, {number(each.count, 'case')} (e.g. {code(each.example)}): {text(shorten(each.reason, 300))}"
        for each in reasons[:BRIEF]
    ]
    if len(reasons) > BRIEF:
        lines.append(f"- {number(len(reasons) - BRIEF, 'more reason')}: see `report.json`")
    return "#### Other outcomes\n\n" + "\n".join(lines)


def _observable(report: Report, *, strict: bool) -> str:
    """What was not judged, not exercised, and not observable; in how many cases each fault was."""
    counts = observable_counts(report.faults, report.cases)
    seen = ((code(fault, in_table=True), str(cases)) for fault, cases in counts.items() if cases)
    said = [*sentences.notes(report, strict=strict), *sentences.unexercised(report), sentences.unobservable(report)]
    parts = ["#### What a pass could have seen", "\n".join(f"- {text(line)}" for line in said)]
    if any(counts.values()):
        parts.append(folded("Cases in which each fault was observable", _table(("fault", "cases"), seen, "-:")))
    return "\n\n".join(parts)


def _environment(report: Report) -> str:
    """What the run ran on, with the command, folded."""
    known = {key: report.environment.get(key) for key in ENVIRONMENT}
    facts: dict[str, object] = {
        "target": report.target.name,
        "version": report.target.version,
        "kernels_sha256": report.target.kernels_sha256,
        **{f"sha256 of {name}": value for name, value in report.target.engine_files.items()},
        "execution": f"{report.execution} {report.arch}",
        "kvcheck": report.kvcheck,
        "created": report.created,
        **known,
        **report.environment,
    }
    lines = (
        (code(key, in_table=True), code("none" if value is None else str(value), in_table=True))
        for key, value in facts.items()
    )
    return folded("Environment", f"{_table(('', ''), lines, '--')}\n\n{block(one_line(report.command), 'sh')}")
