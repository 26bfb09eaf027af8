"""A comparison of two reports in words, for the terminal and for a pull request."""

from __future__ import annotations

from kvcheck.report import axes
from kvcheck.report.channels import findings
from kvcheck.report.compare import Change, Comparison
from kvcheck.report.plain import number, one_line, shorten

#: Cases of a kind that are listed; more are counted.
MOST = 20


def headline(found: Comparison) -> str:
    """What changed, in one line, the worst first."""
    parts = [f"{number(len(found.uncompiled), 'kernel')} no longer compiling"] if found.uncompiled else []
    parts += [
        f"{len(changes)} {word}"
        for word, changes in (
            ("worse", found.worse),
            ("missing", found.missing),
            ("better", found.better),
            ("with other bytes", found.bytes_changed),
            ("new", found.added),
        )
        if changes
    ]
    return f"{', '.join(parts)}, {found.same} as before" if parts else f"all {number(found.same, 'case')} as before"


def lines(found: Comparison) -> list[str]:
    """The comparison as lines of plain text."""
    told = [headline(found), *(f"  {fact}" for fact in (*found.uncompiled, *found.facts))]
    for title, changes in (
        ("worse", found.worse),
        ("missing", found.missing),
        ("other bytes", found.bytes_changed),
        ("better", found.better),
        ("new", found.added),
    ):
        if changes:
            told += ["", f"{title}, {number(len(changes), 'case')}"]
            told += [f"  {line(change)}" for change in changes[:MOST]]
            if len(changes) > MOST:
                told.append(f"  and {len(changes) - MOST} more")
    return told


def line(change: Change) -> str:
    """One case: what became of it, its id, its axes, and what is wrong with it now."""
    case = change.after or change.before
    assert case is not None
    now = "" if change.after is None else findings(change.after) or one_line(change.after.reason)
    parts = [change.why, one_line(change.id), axes.in_words(axes.changed(case)), shorten(now, 160)]
    return "  ".join(part for part in parts if part)
