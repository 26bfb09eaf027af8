"""Reports of the shards of one matrix put together, as if one run had made them."""

from __future__ import annotations

import re
import shlex
import shutil
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from kvcheck.errors import ReportError
from kvcheck.report import outcomes
from kvcheck.report.observable import unobservable
from kvcheck.report.plain import one_line
from kvcheck.report.read import read
from kvcheck.report.repeat import without
from kvcheck.schema import CaseResult, Report

#: What makes reports of the same thing: target, arch, execution.
Key: TypeAlias = tuple[str, str, str]

_SHARD = re.compile(r"([1-9][0-9]*)/([1-9][0-9]*)\Z")


def find(folders: Sequence[Path]) -> list[tuple[Path, Report]]:
    """Every report below some folders, or in files. Raises ReportError where a folder has none."""
    found: list[tuple[Path, Report]] = []
    for folder in folders:
        try:
            files = sorted(folder.rglob("report.json")) if folder.is_dir() else [folder]
        except OSError as error:  # a folder below it that is gone, or nobody's to read
            raise ReportError(f"{one_line(str(folder))}: cannot be searched: {error.strerror or error}") from error
        if not files:
            raise ReportError(f"{one_line(str(folder))}: holds no report.json, nor does a folder below it")
        found += [(file, read(file)) for file in files]
    return found


def merge(found: Sequence[tuple[Path, Report]]) -> tuple[Report, ...]:
    """One report for each target, arch and execution. Raises ReportError where two cannot be of one run."""
    groups: defaultdict[Key, list[tuple[Path, Report]]] = defaultdict(list)
    for path, report in found:
        groups[_key(report)].append((path, report))
    return tuple(_merged(groups[key]) for key in sorted(groups))


def shard(report: Report) -> tuple[int, int] | None:
    """Which shard of how many a report's run was asked for; None where it ran the whole matrix."""
    try:
        words = shlex.split(report.command)
    except ValueError:
        return None
    for index, word in enumerate(words):
        value = word.removeprefix("--shard=") if word.startswith("--shard=") else ""
        if word == "--shard" and index + 1 < len(words):
            value = words[index + 1]
        if match := _SHARD.match(value):
            return int(match[1]), int(match[2])
    return None


def carry_emissions(found: Sequence[tuple[Path, Report]], merged: Report, folder: Path) -> None:
    """Copy the emissions that the parts of a merged report kept to its own folder, so that its cases can be explained.

    Raises ReportError where they cannot be written.
    """
    key = _key(merged)
    try:
        for path, report in found:
            for file in sorted(path.parent.glob("cases/*.msgpack")) if _key(report) == key else ():
                to = folder / "cases" / file.name
                if to.resolve() != file.resolve():
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, to)
    except OSError as error:
        raise ReportError(f"{one_line(str(folder))}: cannot be written: {error.strerror or error}") from error


def _key(report: Report) -> Key:
    return report.target.name, report.arch, report.execution


def _merged(parts: Sequence[tuple[Path, Report]]) -> Report:
    first = parts[0][1]
    for path, report in parts[1:]:
        _check_alike(parts[0][0], first, path, report)
    reports = [report for _, report in parts]
    cases: dict[str, CaseResult] = {}
    for report in reports:
        for case in report.cases:
            cases[case.id] = _agreed(cases[case.id], case) if case.id in cases else case
    ordered = tuple(cases[identifier] for identifier in sorted(cases))
    return msgspec.structs.replace(
        first,
        created=max(report.created for report in reports),
        planned=_planned(reports, len(cases)),
        environment=_environment(reports),
        command=_command(first),
        summary=outcomes.count(ordered),
        unobservable=unobservable(first.faults, ordered),
        cases=ordered,
        missing_shards=_missing(reports),
        **_lists(reports),
    )


def _lists(reports: Sequence[Report]) -> dict[str, object]:
    """The lists of a report that are not of cases or faults (what a compiler said, say), each entry once."""
    merged: dict[str, object] = {}
    for name in reports[0].__struct_fields__:
        lists = [value for report in reports if isinstance(value := getattr(report, name), tuple)]
        if lists and name not in ("cases", "faults", "unobservable", "missing_shards"):
            entries: list[object] = []
            for entry in (entry for each in lists for entry in each):
                if entry not in entries:
                    entries.append(entry)
            merged[name] = tuple(entries)
    return merged


def _check_alike(one: Path, first: Report, other: Path, report: Report) -> None:
    """Raise ReportError where two reports are not of one target, contract, set of faults and kvcheck."""
    for what, mine, theirs in (
        ("kernels", first.target.kernels_sha256, report.target.kernels_sha256),
        ("contracts", first.target.contract, report.target.contract),
        ("forms", first.target.form, report.target.form),
        ("versions of kvcheck", first.kvcheck, report.kvcheck),
        ("lists of faults", first.faults, report.faults),
        ("numbers of shards", (shard(first) or (0, 1))[1], (shard(report) or (0, 1))[1]),
    ):
        if mine != theirs:
            raise ReportError(
                f"{one_line(str(one))} and {one_line(str(other))}: reports of {one_line(first.target.name)} with "
                f"unlike {what} are not shards of one run"
            )


def _agreed(one: CaseResult, other: CaseResult) -> CaseResult:
    """A case that two reports have: the worse of both; where they passed with unlike bytes, inconclusive."""
    worse, better = sorted((one, other), key=lambda case: outcomes.rank(case.outcome))
    if one.outcome != other.outcome:
        said = f"judged twice, unlike: {worse.outcome} and {better.outcome}"
    elif one.digest != other.digest:
        said = f"judged twice, {one.outcome} with unlike bytes"
    else:
        return one
    outcome = worse.outcome if worse.outcome in outcomes.FAILING else "inconclusive"
    reason = f"{said}; {worse.reason}" if worse.reason else said
    return msgspec.structs.replace(worse, outcome=outcome, reason=reason, cold_confirmed=False)


def _planned(reports: Sequence[Report], cases: int) -> int:
    """The cases that the parts set out to run: a part that was run twice counts once, a case in two parts once."""
    planned: dict[object, int] = {}
    ran: dict[object, set[str]] = defaultdict(set)
    for report in reports:
        part = shard(report) or _command(report)
        planned[part] = max(planned.get(part, 0), report.planned)
        ran[part] |= {case.id for case in report.cases}
    twice = sum(len(each) for each in ran.values()) - cases
    return sum(planned.values()) - twice


def _missing(reports: Sequence[Report]) -> tuple[str, ...]:
    """The shards that nobody handed over, as `2/3`; those that a part knew to be missing stay so."""
    known = {each for report in reports for each in report.missing_shards}
    there = {found for report in reports if (found := shard(report)) is not None}
    count = next((of for _, of in there), 0)
    gone = {f"{number}/{count}" for number in range(1, count + 1) if (number, count) not in there}
    given = {f"{number}/{of}" for number, of in there}
    return tuple(sorted(gone | (known - given), key=lambda name: [int(part) for part in name.split("/")]))


def _environment(reports: Sequence[Report]) -> dict[str, str | int | float | bool | None]:
    """What all parts ran on; where they differ, every value."""
    merged: dict[str, str | int | float | bool | None] = {}
    for name in dict.fromkeys(key for report in reports for key in report.environment):
        values = list(dict.fromkeys(report.environment.get(name) for report in reports))
        merged[name] = values[0] if len(values) == 1 else " or ".join(str(value) for value in values)
    return merged


def _command(report: Report) -> str:
    """The command of a part without its shard and its folder: what the whole run would have been."""
    try:
        words = shlex.split(report.command)
    except ValueError:
        return report.command
    return shlex.join(without(words, {"--shard": 1, "--out": 1}))
