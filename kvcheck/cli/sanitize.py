"""`kvcheck sanitize`: the cases of a matrix with a witness, which names the line."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import typer

from kvcheck.cli import options
from kvcheck.errors import SelectionError


def sanitize(  # noqa: PLR0913, PLR0917 - a command's options
    files: options.Files = None,
    target: options.Targets = None,
    arch: options.Archs = None,
    engine_path: options.EnginePaths = None,
    device: options.Device = "cpu",
    jobs: options.Jobs = 0,
    out: options.Out = Path("reports/sanitize"),
    select: options.Select = None,
    shard: options.Shard = None,
    timeout: options.Timeout = 60.0,
    strict: options.Strict = False,
) -> None:
    """Run a matrix's cases and check every load and store of the kernels against what they may touch.

    The bytes are judged as by `kvcheck matrix`. In Triton's interpreter every access is held against kvcheck's own map
    of memory: out of bounds, uninitialised, another tensor's, a gap between rows, each with file and line.

    Exit status: as of `kvcheck matrix`. A record is a violation, though every byte be right; a case that could not be
    watched is inconclusive.
    """
    from kvcheck.lowering.archs import capability  # noqa: PLC0415 - numpy and rich stay out of `kvcheck --help`
    from kvcheck.matrix.load import load_cases  # noqa: PLC0415
    from kvcheck.matrix.select import select as chosen  # noqa: PLC0415
    from kvcheck.matrix.select import shard as part  # noqa: PLC0415
    from kvcheck.run.command import run_targets  # noqa: PLC0415
    from kvcheck.run.options import Options  # noqa: PLC0415

    if device != "cpu":
        raise SelectionError(f"--device: {device!r} is not accepted; expected cpu, Triton's interpreter")
    options.check_jobs(jobs)
    options.check_timeout(timeout)
    cases = load_cases(files or ["default"])
    if select:
        cases = chosen(cases, select)
    if shard:
        cases = part(cases, shard)
    for name in arch or ():
        capability(name)
    folders = options.engine_folders(engine_path)
    run = Options(
        device, tuple(arch or ()), jobs=jobs, timeout=timeout, engine_paths=folders, witness="shadow"
    )  # fmt: skip
    command = shlex.join(["kvcheck", *sys.argv[1:]])
    raise typer.Exit(run_targets(target or ["store"], cases, run, out, command, strict=strict))
