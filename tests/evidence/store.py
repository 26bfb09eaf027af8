"""What reports prove of `store`: that it passes everywhere, and that its bytes do not depend on where it ran.

    python -m tests.evidence.store [FOLDER] [CASES]

reads every report of `store` below FOLDER (`reports`) and prints what they amount to. Exit status 0 where

- every case that was planned passed: none failed, was refused, unsupported or inconclusive;
- at least CASES (2000) unlike cases compared codes; cases that differ in the seed alone, or in given scales, which
  `store` does not take, are one;
- a case has the same bytes in every report, on the CPU and on a GPU;
- so have cases of equal logical inputs, whatever their views, layouts, orders, slots and cache strides;

and 1 where one of these does not hold, with a line that says which.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kvcheck.schema import Case, CaseResult, Report
from kvcheck.views import repeats

from .telling import matrix_reports, tell

TARGET = "store"
LEAST = 2000

Axes = Mapping[str, str | int]
Key = tuple[str | int | bool | None, ...]
#: Axes of which `store` sees nothing, or that only draw other numbers.
UNSEEN = frozenset({"seed", "k_scale", "v_scale"})
#: Slots of which every token has its own: all rows are stored, wherever.
ALL_STORED = frozenset({"ascending", "permuted", "last", "page_edges"})


@dataclass
class Evidence:
    """What some reports amount to."""

    reports: Counter[str] = field(default_factory=Counter)
    """Cases by where they ran: arch, execution and device."""
    failures: list[str] = field(default_factory=list)
    unlike: set[Key] = field(default_factory=set)
    codes: int = 0
    by_id: dict[str, dict[tuple[str, str], list[str]]] = field(default_factory=lambda: defaultdict(dict))
    """For each case, the places that each digest was seen at."""
    by_input: dict[Key, dict[tuple[str, str], list[str]]] = field(default_factory=lambda: defaultdict(dict))
    """For each logical input, the cases that each digest was seen in."""

    def in_two_places(self) -> int:
        """Cases that ran both on a CPU and on a GPU."""
        return sum(
            len({place.partition(" ")[0] for places in found.values() for place in places}) > 1
            for found in self.by_id.values()
        )

    def in_many_forms(self) -> int:
        """Logical inputs that more than one case has."""
        return sum(len({name for names in found.values() for name in names}) > 1 for found in self.by_input.values())

    def problems(self, least: int = LEAST) -> list[str]:
        """A line for everything that does not hold."""
        found = self.failures[:20]
        if len(self.failures) > len(found):
            found.append(f"{len(self.failures) - len(found)} more cases that are no pass")
        if len(self.unlike) < least:
            found.append(f"{len(self.unlike)} unlike cases compared codes; expected {least} or more")
        found += [f"case {name}: {_places(seen)}" for name, seen in self.by_id.items() if len(seen) > 1]
        found += [f"equal inputs: {_places(seen)}" for seen in self.by_input.values() if len(seen) > 1]
        return found


def _places(seen: Mapping[tuple[str, str], Sequence[str]]) -> str:
    return "; ".join(f"{codes[:8]}/{scales[:8]} in {', '.join(where[:4])}" for (codes, scales), where in seen.items())


def unlike(axes: Axes) -> Key:
    """What tells a case from others, for `store`: every axis that it sees, but the seed."""
    case = msgspec.structs.asdict(msgspec.convert(dict(axes), Case))
    return tuple(value for axis, value in case.items() if axis not in UNSEEN)


def logical_input(axes: Axes) -> Key:
    """What decides the bytes that `store` must leave, in the order of its rows: no view, layout, order or stride."""
    case = msgspec.convert(dict(axes), Case)
    stored = "all" if case.slots in ALL_STORED else case.slots
    return (
        case.k_values, case.v_values, repeats(case.k_view), repeats(case.v_view), case.tokens, case.heads,
        case.head_dim, case.dim_v, case.dtype, stored, case.seed,
    )  # fmt: skip


def gather(reports: Sequence[Report]) -> Evidence:
    """What reports of `store` amount to; those of other targets are left out."""
    found = Evidence()
    for report in reports:
        if report.target.name != TARGET:
            continue
        device = "CPU" if report.execution in ("interpreted", "host") else "GPU"
        place = f"{device} {report.arch}-{report.execution}"
        found.reports[place] += len(report.cases)
        if len(report.cases) != report.planned:
            found.failures.append(f"{place}: {len(report.cases)} of {report.planned} planned cases")
        for case in report.cases:
            _add(found, place, case)
    return found


def _add(found: Evidence, place: str, case: CaseResult) -> None:
    if case.outcome != "pass":
        found.failures.append(f"{place}: case {case.id} is {case.outcome}: {case.reason}")
        return
    found.codes += case.codes.compared
    if case.codes.compared:
        found.unlike.add(unlike(case.axes))
    if case.digest is not None:
        digest = (case.digest.codes, case.digest.scales)
        found.by_id[case.id].setdefault(digest, []).append(place)
        found.by_input[logical_input(case.axes)].setdefault(digest, []).append(case.id)


def _says(found: Evidence) -> Iterator[str]:
    for place, count in sorted(found.reports.items()):
        yield f"{count:7} cases of {TARGET} on {place}"
    yield f"{len(found.unlike):7} unlike cases that compared codes, {found.codes} codes in all"
    yield f"{found.in_two_places():7} cases ran on a CPU and on a GPU"
    yield f"{found.in_many_forms():7} logical inputs lay in memory in more than one way"


def main(folder: str = "reports", least: str = str(LEAST)) -> int:
    """Print what the reports below a folder prove of `store`; 1 where a bar is missed."""
    found = gather(list(matrix_reports(Path(folder))))
    return tell(_says(found), found.problems(int(least)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
