"""Which fault kvcheck names for each of its known-bad kernels: a confusion matrix, from runs of them.

    python benchmarks/diagnosis.py [--matrix default] [--select tokens=3] [--seeds 0 1] [--device cpu] [--jobs 2]

Each specimen is run over the matrix, and each failing case gives one pair: the fault that the specimen declares, and
the one that is named first. The names come from the bytes; what is declared is compared with them here alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvcheck.report.read import read
from kvcheck.schema import CaseResult, Report
from kvcheck.targets.load import load

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
    others: Counter[str]


def main() -> int:
    """Run, print the table and the rates; 1 where a specimen is found nowhere."""
    asked = _arguments()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in asked.seeds:
            _run(asked, seed, Path(folder) / str(seed))
        found: dict[str, list[Report]] = {}
        for path in sorted(Path(folder).rglob("report.json")):
            report = read(path)
            found.setdefault(report.target.name, []).append(report)
        rows = [_row(name, reports) for name, reports in sorted(found.items())]
    for line in _table(rows):
        sys.stdout.write(line + "\n")
    return 1 if any(not row.failing for row in rows) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--matrix", default="default")
    parser.add_argument("--select", default="")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--target", default="specimen:*")
    return parser.parse_args()


def _run(asked: argparse.Namespace, seed: int, out: Path) -> None:
    select = ",".join(part for part in (asked.select, f"seed={seed}" if seed else "") if part)
    command = [
        sys.executable, "-m", "kvcheck.cli.main", "matrix", asked.matrix, "--target", asked.target,
        "--device", asked.device, "-j", str(asked.jobs), "--out", str(out), *(["--select", select] if select else []),
    ]  # fmt: skip
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=sys.stderr)  # noqa: S603 - this program


def _row(name: str, reports: Sequence[Report]) -> Row:
    declared = _declared(name)
    cases = [case for report in reports for case in report.cases]
    failing = [case for case in cases if case.outcome in FAILED]
    named = [[each.fault for each in case.diagnosis] for case in failing]
    return Row(
        name=name.removeprefix("specimen:"),
        declared=declared,
        failing=len(failing),
        first=sum(faults[:1] == [declared] for faults in named),
        two=sum(declared in faults[:2] for faults in named),
        missed=sum(_shown(report, case, declared) for report in reports for case in report.cases),
        others=Counter(faults[0] if faults else "-" for faults in named if faults[:1] != [declared]),
    )


def _declared(name: str) -> str:
    (loaded,) = load(name)
    declared = loaded.target.declares
    assert declared is not None, name
    return declared


def _shown(report: Report, case: CaseResult, declared: str) -> bool:
    return case.outcome == "pass" and declared in {report.faults[index] for index in case.observable}


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield "| specimen | declared | failing | first | first two | observable, passed | named first instead |"
    yield "| --- | --- | --: | --: | --: | --: | --- |"
    for row in rows:
        others = ", ".join(f"{fault} {count}" for fault, count in row.others.most_common(3))
        yield f"| {row.name} | {row.declared} | {row.failing} | {row.first} | {row.two} | {row.missed} | {others} |"
    failing = sum(row.failing for row in rows)
    first, two = sum(row.first for row in rows), sum(row.two for row in rows)
    most = sum(row.first * 2 > row.failing for row in rows)
    yield ""
    yield f"{len(rows)} specimens, {sum(bool(row.failing) for row in rows)} found; {most} named rightly in most cases"
    if failing:
        rates = f"first in {first / failing:.1%}, among the first two in {two / failing:.1%}"
        yield f"{failing} failing cases: the right fault {rates}"


if __name__ == "__main__":
    sys.exit(main())
