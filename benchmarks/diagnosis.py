"""Which fault kvcheck names for each of its known-bad kernels: a confusion matrix, from runs of them.

    python benchmarks/diagnosis.py [--matrix default] [--select tokens=3] [--seeds 0 1] [--device cpu] [--jobs 2]

Each specimen is run over the matrix, and each failing case gives one pair: the fault that the specimen declares, and
the one that is named first. The names come from the bytes; what is declared is compared with them here alone. All
specimens are forked from one process, and no case is run a second time, as `kvcheck matrix` does with some.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from kvcheck.matrix.load import load_cases
from kvcheck.matrix.select import select
from kvcheck.run.judges import Judges
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import TargetInfo
from kvcheck.run.result import SLUGS
from kvcheck.run.session import run_target
from kvcheck.schema import CaseResult

FAILED = ("mismatch", "violation", "crash", "timeout")


@dataclass(frozen=True)
class Row:
    """One specimen: its failing cases, those that name its fault first or among the first two, and what others name."""

    name: str
    declared: str
    failing: int
    first: int
    two: int
    missed: int
    """Cases that passed although the fault was observable there."""
    unclear: int
    """Cases that are inconclusive."""
    others: Counter[str]


def main() -> int:
    """Run, print the table, each row as it is known, and the rates; 1 where a specimen is found nowhere."""
    asked = _arguments()
    drawn = select(load_cases([asked.matrix]), asked.select)
    cases = [msgspec.structs.replace(case, seed=case.seed + seed) for seed in asked.seeds for case in drawn]
    options = Options(asked.device, jobs=asked.jobs, trace=True)
    print("| specimen | declared | failing | first | first two | observable, passed | named first instead |")
    print("| --- | --- | --: | --: | --: | --: | --- |")
    rows = []
    with Nursery(asked.target, options) as nursery, Judges(asked.jobs) as judges:
        for info in nursery.hello.targets:
            results = run_target(nursery, info, cases, options, _nothing, judges=judges)
            rows.append(_row(info, results))
            print(_line(rows[-1]), flush=True)
        where = f"{nursery.hello.arch}, {nursery.hello.environment['gpu'] or 'no GPU'}"
    for line in _rates(rows, len(cases), where):
        print(line)
    return 1 if any(not row.failing for row in rows) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--matrix", default="default")
    parser.add_argument("--select", action="append", default=[], help="as for kvcheck matrix; may be given again")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="added to each case's own")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--target", default="specimen:*")
    return parser.parse_args()


def _nothing(result: CaseResult) -> None:
    """Of single cases nothing is said."""


def _row(info: TargetInfo, results: Sequence[CaseResult]) -> Row:
    declared = info.declares
    assert declared is not None, info.name
    failing = [result for result in results if result.outcome in FAILED]
    named = [[each.fault for each in result.diagnosis] for result in failing]
    # Whether a kernel compiles is nothing that bytes say: no case promises to show it.
    shown = SLUGS.index(declared) if declared in SLUGS else None
    return Row(
        name=info.name.removeprefix("specimen:"),
        declared=declared,
        failing=len(failing),
        first=sum(faults[:1] == [declared] for faults in named),
        two=sum(declared in faults[:2] for faults in named),
        missed=sum(result.outcome == "pass" and shown in result.observable for result in results),
        unclear=sum(result.outcome == "inconclusive" for result in results),
        others=Counter(faults[0] if faults else "-" for faults in named if faults[:1] != [declared]),
    )


def _line(row: Row) -> str:
    others = ", ".join(f"{fault} {count}" for fault, count in row.others.most_common(3))
    return f"| {row.name} | {row.declared} | {row.failing} | {row.first} | {row.two} | {row.missed} | {others} |"


def _rates(rows: Sequence[Row], cases: int, where: str) -> Iterator[str]:
    failing = sum(row.failing for row in rows)
    first, two = sum(row.first for row in rows), sum(row.two for row in rows)
    most = sum(row.first * 2 > row.failing for row in rows)
    yield ""
    yield f"{cases} cases on {where}; {sum(row.unclear for row in rows)} runs inconclusive"
    yield f"{len(rows)} specimens, {sum(bool(row.failing) for row in rows)} found; {most} named rightly in most cases"
    if failing:
        rates = f"first in {first / failing:.1%}, among the first two in {two / failing:.1%}"
        yield f"{failing} failing cases: the right fault {rates}"


if __name__ == "__main__":
    sys.exit(main())
