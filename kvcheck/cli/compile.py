"""`kvcheck compile`: what the compiler makes of a target's kernels, for archs that need not be here."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kvcheck.cli import options

CompileFiles = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILES]...", help="Matrix files, whose launches are compiled. Without: one a dtype."),
]
CompileArchs = Annotated[
    list[str] | None,
    typer.Option(
        "--arch", metavar="sm_89", help="An NVIDIA or AMD arch. Without any: all known. May be given several times."
    ),
]


def compile_(
    files: CompileFiles = None,
    target: options.Targets = None,
    arch: CompileArchs = None,
    engine_path: options.EnginePaths = None,
    select: options.Select = None,
    json: bool = typer.Option(False, "--json", help="Print the facts as JSON."),
) -> None:
    """Compile targets' own launches for GPU archs, none of which is needed here; nothing is launched.

    For each kernel and arch: that it compiles, with the instructions that cast and divide and whether multiply and add
    are fused, or the compiler's message. Exit status: 0 all compile; 1 one does not; 2 bad usage or input; 3 of some
    arch nothing is known; 4 of none is.
    """
    import msgspec  # noqa: PLC0415 - stays out of `kvcheck --help`

    from kvcheck.lowering.archs import NAMES, check_arch  # noqa: PLC0415
    from kvcheck.lowering.compile_facts import compile_facts  # noqa: PLC0415
    from kvcheck.lowering.compile_says import exit_code, lines  # noqa: PLC0415
    from kvcheck.matrix.load import load_cases  # noqa: PLC0415
    from kvcheck.matrix.select import select as chosen  # noqa: PLC0415
    from kvcheck.report.plain import printable  # noqa: PLC0415
    from kvcheck.schema import Case  # noqa: PLC0415
    from kvcheck.targets.engine import ENGINE_PATH  # noqa: PLC0415
    from kvcheck.targets.load import check_name  # noqa: PLC0415

    for name in arch or ():
        check_arch(name)
    specs = target or ["store"]
    for spec in specs:
        check_name(spec)
    cases = load_cases(files) if files else tuple(Case(dtype=dtype) for dtype in ("bf16", "fp16", "fp32"))
    if select:
        cases = chosen(cases, select)
    folders = options.engine_folders(engine_path)
    variables = {ENGINE_PATH: os.pathsep.join(str(path.resolve()) for path in folders)} if folders else {}
    found = {spec: compile_facts(spec, cases, tuple(arch or NAMES), variables=variables) for spec in specs}
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        for spec, facts in found.items():
            typer.echo(printable("\n".join([spec, *(f"  {line}" for line in lines(facts))])))
    codes = {exit_code(facts) for facts in found.values()}
    raise typer.Exit(next((code for code in (1, 3, 4) if code in codes), 0))
