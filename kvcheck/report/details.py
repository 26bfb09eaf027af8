"""The rows that describe one group of failures, shared by the terminal and Markdown."""

from __future__ import annotations

import msgspec

from kvcheck.report import axes
from kvcheck.report.channels import findings
from kvcheck.report.groups import Group
from kvcheck.report.plain import number, one_line, shorten
from kvcheck.schema import CaseResult, Diagnosis, Tolerance

#: The limit of the usual tolerance test that a report quotes beside its verdict.
LIMIT = 0.08
_TEST = f"a usual tolerance test (max abs {LIMIT}) would have passed"
#: Axes, values of an axis, and further diagnoses that a group lists; more are counted.
MOST = 6
#: Axes whose counts one line tells.
COUNTED = 3
#: Characters that are shown of what a sanitizer said and kvcheck cannot read.
_SHOWN = 160


class Row(msgspec.Struct, frozen=True):
    """One labelled line of a group. `code` marks text that is to be read letter by letter.

    `long` marks what is for those who want to know more: Markdown and HTML fold it.
    """

    label: str
    text: str
    code: bool = False
    long: bool = False


def title(group: Group) -> str:
    """A group in a few words: outcome, cause, and how many cases."""
    what = group.cause or (", ".join(group.channels) if group.outcome != "timeout" else "")
    return ", ".join(part for part in (group.outcome, what, number(len(group.members), "case")) if part)


def sentence(group: Group) -> str:
    """What is wrong with the group's example: the first diagnosis' own words, or the plain numbers."""
    return case_sentence(group.example)


def case_sentence(case: CaseResult) -> str:
    """What is wrong with a case, in one sentence."""
    if case.diagnosis and case.diagnosis[0].says:
        return one_line(case.diagnosis[0].says)
    return findings(case) or one_line(case.reason) or "passed, although its declared fault was observable"


def rows(group: Group) -> list[Row]:
    """The labelled lines under a group's sentence; those with nothing to say are left out."""
    example = group.example
    first = example.diagnosis[0] if example.diagnosis else None
    found = [
        Row("found", findings(example) if first and first.says else ""),
        Row("explains", _explains(first) if first else "", long=True),
        Row("or", "; ".join(alternative(other) for other in example.diagnosis[1 : 1 + MOST])),
        Row("tolerance", tolerance(group)),
        Row("witness", witness(example)),
        Row("confirmed", _confirmed(group)),
        Row("exactly", f"where {group.decided}, of {group.judged} cases judged" if group.decided else "", code=True),
        Row("shared", _shared(group), code=True),
        Row("counts", _counts(group), code=True, long=True),
        Row(
            "case" if len(group.members) == 1 else "example",
            f"{one_line(example.id)}: {axes.in_words(axes.changed(example))}",
            code=True,
        ),
    ]
    return [row for row in found if row.text]


def tolerance(group: Group) -> str:
    """What a usual tolerance test would have said, where it would have passed wrong codes; else empty.

    A test looks at K and V alike, so it passes a case only where neither is over the limit.
    """
    fooled = [case for case in group.members if _fooled(case)]
    if not fooled:
        return ""
    case = fooled[0]
    figures = ", ".join(f"{name} {_figure(side)}" for name, side in _sides(case))
    if len(group.members) > 1:
        every = f"in {len(fooled)} of {len(group.members)} cases {_TEST} the tensor that is wrong"
        return f"{every}; in {case.id}: {figures}"
    both = all(side.absolute_pass for _, side in _sides(case))
    return f"{_TEST} {'this case' if both else ' and '.join(_fooled(case))}: {figures}"


def witness(case: CaseResult) -> str:
    """What each sanitizer said, and how that and the codes stand to each other; empty where none was asked."""
    parts = []
    for run in case.sanitized:
        said = f"{number(len(run.records), 'record')}" if run.records else run.state
        parts.append(f"{one_line(run.tool)} ({one_line(run.memory)}, {run.way}): {said}")
        parts += [one_line(run.reason)] if run.state == "inconclusive" and run.reason else []
        parts += [one_line(run.agreement)] if run.agreement else []
        parts += [f"left out, as torch's own: {one_line(', '.join(run.left_out))}"] if run.left_out else []
        parts += [f"not known to kvcheck: {shorten(', '.join(run.unknown), _SHOWN)}"] if run.unknown else []
    return "; ".join(parts)


def _shared(group: Group) -> str:
    """The axis values that set the members apart, the most telling first. One case alone shares them with nobody."""
    if len(group.members) == 1 or not group.shared:
        return ""
    shown = axes.in_words(dict(list(group.shared.items())[:MOST]))
    return f"{shown}{f' and {len(group.shared) - MOST} more' if len(group.shared) > MOST else ''}"


def _sides(case: CaseResult) -> tuple[tuple[str, Tolerance], tuple[str, Tolerance]]:
    return ("K", case.tolerance.k), ("V", case.tolerance.v)


def _fooled(case: CaseResult) -> list[str]:
    """The tensors with wrong codes that the usual test would have passed."""
    wrong = {"K": case.codes.k_wrong, "V": case.codes.v_wrong}
    return [name for name, side in _sides(case) if wrong[name] and side.absolute_pass]


def _figure(side: Tolerance) -> str:
    return "not finite" if side.absolute is None else f"{side.absolute:.3g}"


def _explains(first: Diagnosis) -> str:
    """How much the first diagnosis explains, and its evidence."""
    evidence = ", ".join(f"{one_line(key)} = {_value(value)}" for key, value in first.evidence.items())
    if not first.of:
        return evidence
    return f"{first.explains} of {number(first.of, 'wrong byte')}{f' ({evidence})' if evidence else ''}"


def _value(value: float | str | list[int]) -> str:
    """A piece of evidence in a few characters."""
    if isinstance(value, list):
        shown = ", ".join(str(item) for item in value[:MOST])
        return f"[{shown}{f', {len(value) - MOST} more' if len(value) > MOST else ''}]"
    return f"{value:.9g}" if isinstance(value, float) else one_line(str(value))


def alternative(other: Diagnosis) -> str:
    """A diagnosis in a few words."""
    where = f" in {other.tensor.upper()}" if other.tensor in ("k", "v") else ""
    return f"{one_line(other.fault)}{where} explains {other.explains} of {other.of}"


def _confirmed(group: Group) -> str:
    """How many members failed alike in a fresh interpreter; empty where all did, or none was run again."""
    unsteady = [case for case in group.members if case.cold_confirmed is False]
    if not unsteady:
        return ""
    return f"the verdict changed in a fresh interpreter in {len(unsteady)} of {number(len(group.members), 'case')}"


def _counts(group: Group) -> str:
    """This group's and all judged cases by axis value: `tokens 8: 2/4, 9: 1/4`."""
    if len(group.members) == group.judged > 1:
        return f"all {group.judged} cases judged"
    texts = [f"{name} {line}" for name, line in counts(group)[:COUNTED]]
    return "; ".join(texts) + (
        f"; {number(len(group.counts) - COUNTED, 'more axis', 'more axes')}" if len(group.counts) > COUNTED else ""
    )


def counts(group: Group) -> list[tuple[str, str]]:
    """For each axis that varies: its name, and this group's and all judged cases by value, the most telling first."""
    told = []
    for name in telling(group):
        values = list(group.counts[name].items())
        shown = ", ".join(f"{one_line(value)}: {mine}/{total}" for value, (mine, total) in values[:MOST])
        told.append((one_line(name), f"{shown}{', ...' if len(values) > MOST else ''}"))
    return told


def telling(group: Group) -> list[str]:
    """The axes that vary, first those along which the share of cases that fail so varies most.

    None where every judged case fails so: no axis tells anything then.
    """
    if len(group.members) == group.judged:
        return []
    return sorted(group.counts, key=lambda name: -_spread(group.counts[name], group))


def _spread(values: dict[str, tuple[int, int]], group: Group) -> float:
    """How much more the shares of an axis' values differ than chance makes them, in standard deviations.

    The chi-squared statistic less what is expected of it: else an axis of many values would always come first.
    """
    share = len(group.members) / group.judged
    free = len(values) - 1
    if share == 1 or not free:
        return 0.0
    chance = share * (1 - share)
    squares = sum((mine - share * total) ** 2 / (chance * total) for mine, total in values.values())
    return float((squares - free) / (2 * free) ** 0.5)
