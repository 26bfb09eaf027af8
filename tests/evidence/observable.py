"""What reports prove of observability: a specimen fails where its form of the fault is shown, and nowhere else.

    python -m tests.evidence.observable [FOLDER]

reads every report of a specimen and of a right kernel below FOLDER (`reports`) and prints, for each specimen, in how
many cases it failed and in how many of them that was said to show. Exit status 0 where

- a specimen fails in every case that shows its form of the fault, and passes in every other;
- a fault of which every form is shown is `observable`, and no other;
- a right kernel's report says the same of the same case: what a pass rules out does not hang on what ran;
- where the specimen passes, its bytes are the right kernel's, but for slots that tokens share, which may hold the row
  of another of them;

and 1 where one of these does not hold, or there is no report of a specimen, with a line that says which.

Two faults are asked for less. Whether a kernel compiles is nothing that bytes say: a `compile-failure` is never
observable. A kernel that rounds by chance may go wrong where nobody could promise it: a `nondeterministic` one must
fail where that is observable, and may elsewhere.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kvcheck.schema import CaseResult, Report
from kvcheck.targets.load import load

from .telling import matrix_reports, tell

PREFIX = "specimen:"
FAILED = frozenset({"mismatch", "violation", "crash", "timeout", "xfail"})
PASSED = frozenset({"pass", "xpass"})

#: Which form of its fault a specimen has, where the fault has more than one.
FORMS = {
    "amax-behind-row": "an amax over one element more",
    "cloned-cache": "into a contiguous copy of the cache",
    "e5m2-codes": "e5m2",
    "fnuz-codes": "e4m3fnuz",
    "grouped-heads": "a head for two",
    "half-row-amax": "each row's first half",
    "last-lane": "the last element not stored",
    "maximum-240": "240",
    "maximum-440": "440",
    "multiplied-scale": "the wrong way round",
    "next-head": "the next head",
    "odd-token-lost": "two tokens at a time",
    "planned-slots": "slots",
    "shared-pitch": "V by K's token pitch",
    "shared-pitch-of-v": "K by V's token pitch",
    "sibling-cache-stride": "V's by K's strides",
    "stored-scale-fp16": "to fp16 when kept",
    "through-bf16": "rounded twice, first to nearest in bf16",
    "through-fp16": "rounded twice, first to nearest in fp16",
    "ties-away": "rounded to nearest with ties away from zero",
    "token-amax": "the whole token",
    "toward-zero": "rounded toward zero",
    "twice-applied-scale": "twice",
    "unapplied-scale": "not applied",
    "used-scale-bf16": "to bf16 when used",
    "whole-vectors": "whole vectors of eight stored",
    "wrapped-slot-offset": "cache rows in unsigned 16 bits",
    "wrapped-source": "source rows in signed 16 bits",
}


class Said(NamedTuple):
    """The faults that cases' `observable` points into, and the forms that `shown` does."""

    faults: tuple[str, ...]
    forms: tuple[str, ...]


@dataclass
class Row:
    """One specimen: cases by whether they failed and whether its form was shown, and what does not hold."""

    name: str
    fault: str
    counts: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    """(failed, shown) of the judged cases."""
    unjudged: int = 0
    ruled_out: int = 0
    """Failing cases in which all forms of the fault were shown."""
    compared: int = 0
    """Passing cases whose bytes were held against a right kernel's."""
    problems: list[str] = field(default_factory=list)


def form_of(specimen: str, fault: str) -> str:
    """The form of its fault that a specimen has, as reports name it."""
    name = FORMS.get(specimen)
    return fault if name is None else f"{fault}: {name}"


def row(name: str, fault: str, said: Said, cases: Iterable[CaseResult], rights: Iterable[CaseResult] = ()) -> Row:
    """What results of a specimen with this fault amount to, beside those of a right kernel: cases of the same id."""
    found, form = Row(name, fault), form_of(name, fault)
    if fault != "compile-failure" and form not in said.forms:
        found.problems.append(f"{name}: nothing is known of the form {form!r}")
        return found
    right = {case.id: case for case in rights}
    for case in cases:
        if case.outcome not in FAILED | PASSED:
            found.unjudged += 1
            continue
        _add(found, said, case, form)
        if case.id in right:
            _compare(found, said, case, right[case.id])
    return found


def _add(found: Row, said: Said, case: CaseResult, form: str) -> None:
    """Count a judged case, and say where iff does not hold."""
    failed, shown = case.outcome in FAILED, form in {said.forms[index] for index in case.shown}
    found.counts[failed, shown] += 1
    ruled_out = found.fault in {said.faults[index] for index in case.observable}
    found.ruled_out += failed and ruled_out
    if ruled_out and not shown:
        found.problems.append(f"{found.name}: case {case.id} is observable, and its form is not shown")
    if shown and not failed:
        found.problems.append(f"{found.name}: case {case.id} passes, although it would have shown the fault")
    if failed and not shown and found.fault not in ("compile-failure", "nondeterministic"):
        found.problems.append(f"{found.name}: case {case.id} fails, although nothing of the fault was to be seen")


def _compare(found: Row, said: Said, case: CaseResult, right: CaseResult) -> None:
    """Hold a case against the right kernel's."""
    if (case.digest is not None or case.shown) and (case.shown, case.observable) != (right.shown, right.observable):
        unlike = sorted(said.forms[index] for index in set(case.shown) ^ set(right.shown))
        found.problems.append(f"{found.name}: case {case.id} shows other forms than a right kernel's: {unlike}")
    if case.outcome in PASSED and case.axes["slots"] != "duplicates":
        found.compared += 1
        if case.digest != right.digest:
            found.problems.append(f"{found.name}: case {case.id} passes with other bytes than a right kernel's")


def gather(reports: Sequence[Report]) -> list[Row]:
    """A row for each report of a specimen; those of other targets that only pass are right kernels'."""
    rights = [
        report
        for report in reports
        if not report.target.name.startswith(PREFIX) and set(report.summary) <= {"pass", "unsupported"}
    ]
    return [
        row(
            report.target.name.removeprefix(PREFIX),
            declared(report.target.name),
            Said(report.faults, report.forms),
            report.cases,
            [case for right in rights if _alike(report, right) for case in right.cases],
        )
        for report in reports
        if report.target.name.startswith(PREFIX)
    ]


def _alike(report: Report, right: Report) -> bool:
    """Whether a right kernel is one of the same contract and form, run in the same way by the same kvcheck."""
    one, other = ((each.target.contract, each.target.form, each.execution, each.forms) for each in (report, right))
    return one == other


def declared(name: str) -> str:
    """The fault that a specimen declares."""
    fault = load(name)[0].target.declares
    assert fault is not None
    return fault


def below(folder: Path) -> Iterator[Report]:
    """Every report of `kvcheck matrix` below a folder that says which forms its cases show."""
    return (report for report in matrix_reports(folder) if report.forms and report.target.kind == "store")


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows as lines of a Markdown table."""
    columns = ("fails, shown", "fails, not", "passes, shown", "passes, not", "fails, observable", "same bytes")
    yield f"| specimen | fault, form | {' | '.join(columns)} |"
    yield f"| --- | --- |{' --: |' * len(columns)}"
    for each in rows:
        counts = " | ".join(
            str(each.counts[key]) for key in ((True, True), (True, False), (False, True), (False, False))
        )
        form = form_of(each.name, each.fault)
        yield f"| {each.name} | {form} | {counts} | {each.ruled_out} | {each.compared} |"


def main(folder: str = "reports") -> int:
    """Print what the reports below a folder prove of observability; 1 where something does not hold."""
    rows = gather(list(below(Path(folder))))
    problems = [problem for each in rows for problem in each.problems]
    problems += [] if rows else [f"no report of a specimen below {folder} says what its cases show"]
    return tell(table(rows), problems)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
