"""Run the command as a user does, and read the reports that it wrote."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from kvcheck.cli.main import run
from kvcheck.report.read import read
from kvcheck.schema import CaseResult, Outcome, Report

#: Target files, each as a user would write one: they are no package, and import each other by their stems.
KERNELS = Path(__file__).parent / "kernels"
SEED = Path(__file__).parents[2] / "matrices" / "seed.toml"


@dataclass(frozen=True)
class Ran:
    """What a command left behind: exit code, what it printed, its reports by target name, and where they are."""

    code: int
    out: str
    err: str
    reports: dict[str, Report]
    folder: Path

    @property
    def report(self) -> Report:
        """The one report of a run of one target."""
        (report,) = self.reports.values()
        return report


def kvcheck(*arguments: object) -> Ran:
    """Run `kvcheck ARGUMENTS` in this process; only the nursery and its children are processes of their own."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(argument) for argument in arguments])
    return Ran(code, out.getvalue(), err.getvalue(), {}, Path())


def matrix(out: Path, *arguments: object, device: str = "cpu") -> Ran:
    """Run `kvcheck matrix ARGUMENTS` on the CPU into the folder `out`, and read every report that is then there."""
    ran = kvcheck("matrix", *arguments, "--device", device, "--out", out)
    return Ran(ran.code, ran.out, ran.err, reports_in(out), out)


def reports_in(out: Path) -> dict[str, Report]:
    """Every report below a folder, by its target's name."""
    found = [read(path) for path in sorted(out.glob("*/*/report.json"))]
    return {report.target.name: report for report in found}


def start(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """Start `kvcheck ARGUMENTS` as a process and group of its own."""
    command = [sys.executable, "-m", "kvcheck.cli.main", *(str(argument) for argument in arguments)]
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def environment() -> dict[str, str]:
    """This environment, with kvcheck found from any folder, installed or not."""
    places = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


def write_matrix(path: Path, **axes: object) -> Path:
    """Write a matrix of `axes`, lists, and of fixed values, everything else."""
    listed = {name: value for name, value in axes.items() if isinstance(value, list)}
    fixed = {name: value for name, value in axes.items() if not isinstance(value, list)}
    lines = ["[axes]", *(f"{name} = {value!r}" for name, value in listed.items())]
    lines += ["[fixed]", *(f"{name} = {value!r}" for name, value in fixed.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def by_axis(report: Report, axis: str) -> dict[str | int, CaseResult]:
    """A report's cases by their value of an axis that no two of them share."""
    found = {case.axes[axis]: case for case in report.cases}
    assert len(found) == len(report.cases)
    return found


def outcomes(report: Report) -> list[Outcome]:
    """The outcomes of a report's cases, in their order."""
    return [case.outcome for case in report.cases]
