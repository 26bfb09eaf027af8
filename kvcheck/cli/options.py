"""Options that several commands take, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvcheck.errors import SelectionError

if TYPE_CHECKING:  # msgspec stays out of `kvcheck --help`
    from kvcheck.schema import Case

#: The longest time limit, in seconds: a day. Infinity has no JSON, and no clock.
LONGEST = 86400

Files = Annotated[
    list[str] | None, typer.Argument(metavar="[FILES]...", help="Matrix files. Without any: the default matrix.")
]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", metavar="T", help="A built-in name, or FILE.py[::NAME]. May be given several times."),
]
EnginePaths = Annotated[
    list[Path] | None,
    typer.Option(
        "--engine-path",
        metavar="DIR",
        help="Import engines from this folder, a checkout say, before all others. May be given several times.",
    ),
]
Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select", metavar="EXPR", help="Only cases that hold: an id, axis=value or axis!=value, joined by commas."
    ),
]
Shard = Annotated[str | None, typer.Option("--shard", metavar="K/N", help="Only the K-th of N equal parts.")]
Archs = Annotated[
    list[str] | None,
    typer.Option(
        "--arch",
        metavar="sm_89",
        help="Run as this arch: natively where this GPU is one, else its lowering. May be given several times.",
    ),
]
RequireNative = Annotated[
    bool, typer.Option("--require-native", help="Exit 3 where an arch asked for is not that of this GPU.")
]
Devices = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="auto|cpu|cuda|cuda:0,cuda:1",
        help="Where to run the target. Cases are shared among all that are named.",
    ),
]
Device = Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda", help="Where to run the target.")]
Jobs = Annotated[
    int,
    typer.Option(
        "-j", "--jobs", metavar="N", help="Cases at a time, for each device. 0: as many as cores, at most 8 on a GPU."
    ),
]


def cases_of(files: list[str], select: list[str] | None, shard: str | None) -> tuple[Case, ...]:
    """The cases of matrix files, or the part of them that `--select` and `--shard` ask for.

    Raises MatrixError and SelectionError.
    """
    from kvcheck.matrix.load import load_cases  # noqa: PLC0415 - numpy stays out of `kvcheck --help`
    from kvcheck.matrix.select import select as chosen  # noqa: PLC0415
    from kvcheck.matrix.select import shard as part  # noqa: PLC0415

    cases = load_cases(files)
    if select:
        cases = chosen(cases, select)
    return part(cases, shard) if shard else cases


def checked_archs(archs: list[str] | None) -> tuple[str, ...]:
    """The archs that `--arch` names. Raises SelectionError for one that kvcheck does not know."""
    from kvcheck.lowering.archs import capability  # noqa: PLC0415

    for name in archs or ():
        capability(name)
    return tuple(archs or ())


def engine_folders(paths: list[Path] | None) -> tuple[Path, ...]:
    """The folders that `--engine-path` names. Raises SelectionError where one is none."""
    for path in paths or ():
        if not path.is_dir():
            raise SelectionError(f"--engine-path: {path} is no folder")
    return tuple(paths or ())


def check_jobs(jobs: int) -> None:
    """Raise SelectionError for a number of cases at a time that is none."""
    if jobs < 0:
        raise SelectionError(f"-j: {jobs} is not accepted; expected 1 or more, or 0 for as many as cores")


def check_timeout(timeout: float, option: str = "--timeout") -> None:
    """Raise SelectionError for a time limit that is none."""
    if not 0 < timeout <= LONGEST:
        raise SelectionError(
            f"{option}: {timeout} is not accepted; expected seconds, more than 0 and at most {LONGEST}"
        )


Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the reports go.")]
Junit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write the reports as JUnit XML too.")]
Baseline = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        metavar="REPORT",
        help="Say what changed since a report, or a folder of them; fail where it is worse.",
    ),
]
Repeat = Annotated[
    int,
    typer.Option(
        "--repeat", min=1, metavar="N", help="Run each case that passes in N processes, and compare their bytes."
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Take over what a run that was cut has left in --out. Where kernel, cases or machine differ, run anew.",
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="Time limit of one case.")]
LoadTimeout = Annotated[
    float,
    typer.Option(
        "--load-timeout", metavar="SECONDS", help="Time limit of importing a target and its engine. The others run on."
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Fail also on legal codes and on refused cases.")]
ExpectDeclared = Annotated[
    bool,
    typer.Option("--expect-declared", help="For known-bad kernels: the declared fault, found, is an expected failure."),
]
