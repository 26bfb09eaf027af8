"""Failing cases grouped by what they share, worst first, and the other cases grouped by their reasons."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import msgspec

from kvcheck.report import axes
from kvcheck.report.axes import Value
from kvcheck.report.channels import failed_channels
from kvcheck.report.deciding import deciding
from kvcheck.report.outcomes import FAILING, JUDGED, rank
from kvcheck.report.plain import one_line
from kvcheck.report.repeat import repeat
from kvcheck.report.traces import raised
from kvcheck.schema import CaseResult, Outcome, Report

#: The last line of a traceback: the exception's name, behind its module's.
_EXCEPTION = re.compile(r"(?:[\w.]+\.)?(\w+)(?::|\Z)")
#: What differs between two cases that crash alike: addresses, sizes, line numbers.
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")


class Group(msgspec.Struct, frozen=True):
    """Failing cases that share an outcome, the channels that failed, and a cause."""

    outcome: Outcome
    channels: tuple[str, ...]
    cause: str
    """The first diagnosis (`sibling-pitch in V`), a crash's signal or exception, or the tensors with wrong codes."""
    members: tuple[CaseResult, ...]
    """The plainest first: fewest axes that differ from their defaults, fewest elements of K, then the id."""
    shared: dict[str, Value]
    """Axis values that all members have, and not all judged cases of the report; the rarest there first."""
    counts: dict[str, dict[str, tuple[int, int]]]
    """For each axis that varies among the judged cases and is not shared: value → (members, judged cases)."""
    decided: str
    """Where one axis or two tell the members from all other judged cases: `k_view,v_view is dense,qkv or qkv,dense`."""
    judged: int
    """The cases that were judged or died: a case that the target does not take says nothing of where it fails."""
    repeat: str
    """The command that runs the example alone."""

    @property
    def example(self) -> CaseResult:
        """The plainest member."""
        return self.members[0]


class Reason(msgspec.Struct, frozen=True):
    """Cases that were not judged, or failed as declared, for one reason."""

    outcome: Outcome
    reason: str
    count: int
    example: str
    """The id of the first such case."""


def group_failures(report: Report) -> tuple[Group, ...]:
    """The failing cases of a report in groups: the worst outcome first, then the largest."""
    sorted_into: defaultdict[tuple[Outcome, tuple[str, ...], str], list[CaseResult]] = defaultdict(list)
    for case in report.cases:
        if case.outcome in FAILING:
            # One fault may fail other channels in other layouts; a case without a diagnosis goes by its channels.
            channels = () if case.diagnosis else failed_channels(case)
            sorted_into[case.outcome, channels, _key(case)].append(case)
    every = [axes.complete(case) for case in report.cases if case.outcome in JUDGED | FAILING]
    groups = [_group(report, every, members) for members in sorted_into.values()]
    return tuple(
        sorted(groups, key=lambda group: (rank(group.outcome), -len(group.members), group.cause, group.example.id))
    )


def group_reasons(report: Report) -> tuple[Reason, ...]:
    """The cases that are neither failures nor passes, grouped by reason: the worst outcome first, then the largest.

    An `xfail` goes by the fault that it was diagnosed with.
    """
    found: defaultdict[tuple[Outcome, str], list[CaseResult]] = defaultdict(list)
    for case in report.cases:
        if case.outcome not in FAILING and case.outcome != "pass":
            found[case.outcome, _reason(case)].append(case)
    reasons = [Reason(outcome, why, len(cases), cases[0].id) for (outcome, why), cases in found.items()]
    return tuple(sorted(reasons, key=lambda each: (rank(each.outcome), -each.count, each.reason)))


def _reason(case: CaseResult) -> str:
    """Why a case is no pass, in one line."""
    if case.outcome == "xfail" and case.diagnosis:
        return _diagnosed(case)
    return one_line(case.reason) or raised(case.process.error) or "no reason given"


def _diagnosed(case: CaseResult) -> str:
    """The first diagnosis: the fault, and every tensor that it is diagnosed in."""
    fault = case.diagnosis[0].fault
    tensors = sorted({one_line(found.tensor) for found in case.diagnosis if found.fault == fault and found.tensor})
    named = " and ".join(name.upper() if name in ("k", "v") else name for name in tensors)
    return f"{one_line(fault)} in {named}" if named else one_line(fault)


def _cause(case: CaseResult) -> str:
    """What a failing case is called: its fault, its signal or exception, or the tensors that are wrong."""
    if case.diagnosis:
        return _diagnosed(case)
    if case.outcome == "timeout":
        return ""
    if case.outcome == "crash":
        exception = _EXCEPTION.match(raised(case.process.error))
        return one_line(case.process.signal or "") or (exception[1] if exception else "")
    wrong = [name for name, count in (("K", case.codes.k_wrong), ("V", case.codes.v_wrong)) if count]
    return f"codes of {' and '.join(wrong)}" if wrong else ""


def _key(case: CaseResult) -> str:
    """`_cause`, for a crash with its last line, the numbers in it masked, so that cases that die alike meet."""
    said = _NUMBERS.sub("#", raised(case.process.error)) if case.outcome == "crash" and not case.diagnosis else ""
    return f"{_cause(case)} {said}"


def _group(report: Report, every: Sequence[dict[str, Value]], members: list[CaseResult]) -> Group:
    """A group of these members of a report whose judged cases have the axes `every`."""
    members = sorted(members, key=lambda case: (len(axes.changed(case)), axes.size(case), case.id))
    own = [axes.complete(case) for case in members]
    names = list(dict.fromkeys(name for each in every for name in each))
    shared: list[tuple[int, str, Value]] = []
    counts: dict[str, dict[str, tuple[int, int]]] = {}
    for name in names:
        total = Counter(str(each.get(name, axes.UNSET)) for each in every)
        mine = Counter(str(each.get(name, axes.UNSET)) for each in own)
        if len(total) > 1 and len(mine) == 1:
            value = own[0].get(name, axes.UNSET)
            shared.append((total[str(value)], name, value))
        elif len(total) > 1:
            values = sorted(total, key=lambda value: (-mine[value] / total[value], -total[value]))
            counts[name] = {value: (mine[value], total[value]) for value in values}
    shared.sort(key=lambda each: each[0])
    alike = {name: value for _, name, value in shared}
    if "head_dim_v" in alike and alike.get("head_dim") == alike["head_dim_v"]:
        del alike["head_dim_v"]  # it follows head_dim: twice the same news
    first = members[0]
    return Group(
        first.outcome, _channels(members), _cause(first), tuple(members), alike, counts,
        deciding(every, own, names), len(every), repeat(report, first.id),
    )  # fmt: skip


def _channels(members: Sequence[CaseResult]) -> tuple[str, ...]:
    """The channels that failed in any member, in the channels' order."""
    return tuple(dict.fromkeys(channel for case in members for channel in failed_channels(case)))
