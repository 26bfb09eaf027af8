"""`kvcheck sanitize`: the cases of a matrix with a witness, which names the line."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from kvcheck.cli import options
from kvcheck.errors import SelectionError

Tools = Annotated[
    list[str] | None,
    typer.Option(
        "--tool",
        metavar="T",
        help="memcheck, initcheck, racecheck or synccheck; on a GPU. Without any: initcheck and memcheck.",
    ),
]


def sanitize(  # noqa: PLR0913, PLR0917 - a command's options
    files: options.Files = None,
    target: options.Targets = None,
    arch: options.Archs = None,
    engine_path: options.EnginePaths = None,
    tool: Tools = None,
    replay: bool = typer.Option(False, "--replay", help="Only by making recorded launches again, without torch."),
    whole: bool = typer.Option(False, "--whole", help="Only by running targets' own processes under the tools."),
    device: options.Device = "auto",
    jobs: options.Jobs = 0,
    out: options.Out = Path("reports/sanitize"),
    select: options.Select = None,
    shard: options.Shard = None,
    timeout: options.Timeout = 60.0,
    load_timeout: options.LoadTimeout = 300.0,
    strict: options.Strict = False,
) -> None:
    """Run a matrix's cases and check every load and store of the kernels against what they may touch.

    The bytes are judged as by `kvcheck matrix`. On a GPU each launch is then made again under compute-sanitizer, for
    each tool in memory laid out so that it can see: initcheck in a slab as of a caching allocator, memcheck with an
    allocation a tensor. Launches that cannot be recorded run with the target's whole process. In Triton's interpreter
    every access is held against kvcheck's own map of memory.

    Exit status: as of `kvcheck matrix`. A record is a violation, though every byte be right; a case that could not be
    watched is inconclusive.
    """
    from kvcheck.run.command import run_targets  # noqa: PLC0415 - numpy and rich stay out of `kvcheck --help`
    from kvcheck.run.options import Options  # noqa: PLC0415
    from kvcheck.run.sanitize import Asked, Witnesses  # noqa: PLC0415
    from kvcheck.sanitizer.replay.known_bad import KNOWN_BAD  # noqa: PLC0415

    if device not in ("auto", "cpu", "cuda"):
        raise SelectionError(f"--device: {device!r} is not accepted; expected auto, cpu or cuda")
    for name in tool or ():
        if name not in KNOWN_BAD:
            raise SelectionError(f"--tool: {name!r} is not accepted; expected {', '.join(KNOWN_BAD)}")
    if replay and whole:
        raise SelectionError("--replay and --whole are not accepted together; expected one of them, or neither")
    options.check_jobs(jobs)
    options.check_timeout(timeout)
    options.check_timeout(load_timeout, "--load-timeout")
    cases = options.cases_of(files or ["default"], select, shard)
    folders = options.engine_folders(engine_path)
    run = Options(
        device, options.checked_archs(arch), jobs=jobs, timeout=timeout, load_timeout=load_timeout, engine_paths=folders
    )
    tools = tuple(name for name in KNOWN_BAD if name in (tool or ()))
    witnesses = Witnesses(Asked(tools, "replay" if replay else "whole" if whole else None))
    command = shlex.join(["kvcheck", *sys.argv[1:]])
    code = run_targets(target or ["store"], cases, run, out, command, strict=strict, witnesses=witnesses)
    raise typer.Exit(code)
