"""`kvcheck matrix`: run targets over matrices, judge every byte, write a report for each target."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import typer

from kvcheck.cli import options


def matrix(  # noqa: PLR0913, PLR0917 - a command's options
    files: options.Files = None,
    target: options.Targets = None,
    arch: options.Archs = None,
    engine_path: options.EnginePaths = None,
    device: options.Devices = "auto",
    jobs: options.Jobs = 0,
    out: options.Out = Path("reports"),
    select: options.Select = None,
    shard: options.Shard = None,
    resume: options.Resume = False,
    junit: options.Junit = None,
    baseline: options.Baseline = None,
    repeat: options.Repeat = 1,
    timeout: options.Timeout = 60.0,
    load_timeout: options.LoadTimeout = 300.0,
    require_native: options.RequireNative = False,
    strict: options.Strict = False,
    expect_declared: options.ExpectDeclared = False,
) -> None:
    """Run kernels over matrices of strides, magnitudes and layouts, and compare every byte they store.

    Exit status: 0 every case passed; 1 a wrong byte, a violation, a crash or a timeout; 2 bad usage or input;
    3 something could not be judged; 4 nothing was compared.
    """
    from kvcheck.report.deliver import wanted  # noqa: PLC0415 - numpy and rich stay out of `kvcheck --help`
    from kvcheck.run.command import run_targets  # noqa: PLC0415
    from kvcheck.run.devices import devices_of  # noqa: PLC0415
    from kvcheck.run.options import Options  # noqa: PLC0415

    devices_of(device)
    options.check_jobs(jobs)
    options.check_timeout(timeout)
    options.check_timeout(load_timeout, "--load-timeout")
    cases = options.cases_of(files or ["default"], select, shard)
    asked = wanted(junit, baseline)
    folders = options.engine_folders(engine_path)
    run = Options(
        device, options.checked_archs(arch), require_native, jobs, timeout, load_timeout, expect_declared,
        confirm=True, trace=True, engine_paths=folders, resume=resume, repeat=repeat,
    )  # fmt: skip
    # A run that was resumed is the run that was not cut.
    command = shlex.join(["kvcheck", *(word for word in sys.argv[1:] if word != "--resume")])
    raise typer.Exit(run_targets(target or ["store"], cases, run, out, command, strict=strict, asked=asked))
