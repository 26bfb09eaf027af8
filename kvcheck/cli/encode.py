"""`kvcheck encode`: an encoder alone, input by input."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from kvcheck.cli import options
from kvcheck.errors import ReportError, SelectionError

Encoders = Annotated[
    list[str] | None,
    typer.Option(
        "--encoder", metavar="E", help="triton-cast, software, torch-cast or model. May be given several times."
    ),
]
EncoderTargets = Annotated[
    list[str] | None,
    typer.Option("--target", metavar="FILE.py[::NAME]", help="Functions under @kvcheck.encoder_target."),
]
Dtypes = Annotated[
    list[str] | None,
    typer.Option("--dtype", metavar="fp32|bf16|fp16", help="Inputs to run. Without any: all three."),
]


def encode(  # noqa: PLR0913, PLR0917 - a command's options
    encoder: Encoders = None,
    target: EncoderTargets = None,
    arch: options.Archs = None,
    dtype: Dtypes = None,
    device: options.Device = "auto",
    exhaustive: bool = typer.Option(
        False, "--exhaustive", help="On the CPU too, every one of the 2^32 fp32 inputs: many minutes an encoder."
    ),
    out: options.Out = Path("reports"),
    timeout: float = typer.Option(3600.0, "--timeout", metavar="SECONDS", help="Time limit of one process."),
    require_native: options.RequireNative = False,
) -> None:
    """Run all 2^32 fp32 inputs, and all 2^16 of bf16 and fp16, through encoders; say which codes differ and why.

    On the CPU a sample of the fp32 inputs is run, unless --exhaustive. Writes encode.json and encode.md to --out.
    Exit status: 0 every code compared is right; 1 a code differs, or an encoder crashed; 2 bad usage or input;
    3 something could not be judged; 4 nothing was compared.
    """
    import msgspec  # noqa: PLC0415 - numpy and torch stay out of `kvcheck --help`

    from kvcheck.encode.exit_code import exit_code  # noqa: PLC0415
    from kvcheck.encode.facts import EncoderResult  # noqa: PLC0415
    from kvcheck.encode.text import lines, markdown  # noqa: PLC0415
    from kvcheck.report.plain import printable  # noqa: PLC0415
    from kvcheck.run.encode_command import EncodeOptions, run_encoders  # noqa: PLC0415
    from kvcheck.run.encode_protocol import ENCODERS  # noqa: PLC0415
    from kvcheck.targets.encoders import check_spec  # noqa: PLC0415

    _one_of("--device", device, ("auto", "cpu", "cuda"))
    for name in encoder or ():
        _one_of("--encoder", name, ENCODERS)
    for name in dtype or ():
        _one_of("--dtype", name, ("fp32", "bf16", "fp16"))
    if not 0 < timeout <= 86400:
        raise SelectionError(f"--timeout: {timeout} is not accepted; expected seconds, more than 0 and at most 86400")
    for spec in target or ():
        check_spec(spec)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReportError(f"--out {out}: cannot be written: {error.strerror or error}") from error

    def show(results: tuple[EncoderResult, ...]) -> None:
        for result in results:
            typer.echo(printable("\n".join(lines(result))))

    asked = EncodeOptions(
        encoders=tuple(dict.fromkeys(encoder or ())),
        targets=tuple(dict.fromkeys(target or ())),
        archs=tuple(dict.fromkeys(arch or ())),
        dtypes=tuple(dict.fromkeys(dtype or ("fp32", "bf16", "fp16"))),  # type: ignore[arg-type]
        device=device,
        exhaustive=exhaustive,
        require_native=require_native,
        timeout=timeout,
    )
    report = run_encoders(asked, shlex.join(["kvcheck", *sys.argv[1:]]), show)
    try:
        (out / "encode.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
        (out / "encode.md").write_text(markdown(report), encoding="utf-8")
    except OSError as error:
        raise ReportError(f"--out {out}: cannot be written: {error.strerror or error}") from error
    typer.echo(f"{out / 'encode.md'}, {out / 'encode.json'}")
    raise typer.Exit(exit_code(report.results))


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    """Raise SelectionError, one line, for a value that an option does not take."""
    if value not in known:
        raise SelectionError(f"{option}: {value!r} is not accepted; expected {', '.join(known[:-1])} or {known[-1]}")
