"""The command `kvcheck`: one file a command, each thin. Errors of the user's are one line and exit 2."""

from __future__ import annotations

import sys
import traceback

import typer

import kvcheck
from kvcheck.cli.cases import cases
from kvcheck.cli.compare import compare
from kvcheck.cli.compile import compile_
from kvcheck.cli.doctor import doctor
from kvcheck.cli.encode import encode
from kvcheck.cli.explain import explain
from kvcheck.cli.matrix import matrix
from kvcheck.cli.merge import merge
from kvcheck.cli.report import report
from kvcheck.cli.sanitize import sanitize
from kvcheck.cli.streams import secure
from kvcheck.cli.targets import targets
from kvcheck.errors import KvcheckError
from kvcheck.report.exit_codes import INCONCLUSIVE, INTERRUPTED, USAGE
from kvcheck.run.interrupts import listen, listen_no_more

app = typer.Typer(
    name="kvcheck",
    help="Say whether a GPU kernel wrote the right bytes into a quantised KV cache, why not, and on which GPUs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True)) -> None:
    if version:
        typer.echo(f"kvcheck {kvcheck.__version__}")
        raise typer.Exit


app.command("matrix", short_help="Run kernels over a matrix of cases, compare every byte.")(matrix)
app.command("sanitize", short_help="The same, with a witness that names the wrong access.")(sanitize)
app.command("encode", short_help="Run every input there is through an encoder.")(encode)
app.command("compile", short_help="Compile a target for GPU archs, without a GPU.")(compile_)
app.command("cases", short_help="List what would run.")(cases)
app.command("targets", short_help="List what can be run; write a first adapter.")(targets)
app.command("doctor", short_help="Say what this machine's GPU, compiler and casts do.")(doctor)
app.command("report", short_help="Show reports as HTML, Markdown, JUnit XML or for GitHub.")(report)
app.command("explain", short_help="Say of one case what went wrong, and where.")(explain)
app.command("compare", short_help="List what changed from one report to another.")(compare)
app.command("merge", short_help="Put the reports of shards together.")(merge)


def main() -> None:
    """Run the command line and exit with its code."""
    listen()
    lost = secure()
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        listen_no_more()
    if (reason := lost()) is not None:
        sys.stderr.write(f"kvcheck: standard output: cannot be written: {reason}\n")
        code = code or USAGE
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    if sys.platform != "linux":
        sys.stderr.write(f"kvcheck: runs on Linux only; this is {sys.platform}\n")
        return USAGE
    try:
        app(arguments, prog_name="kvcheck")
    except SystemExit as end:  # typer's way to say it has finished, usage errors included
        return end.code if isinstance(end.code, int) else USAGE if end.code else 0
    except KvcheckError as error:
        sys.stderr.write(f"kvcheck: {' '.join(str(error).split())}\n")
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception:  # noqa: BLE001 - Python's own exit code would be 1: a wrong byte
        traceback.print_exc()
        sys.stderr.write("kvcheck: this is a mistake of kvcheck's own, and says nothing of a kernel\n")
        return INCONCLUSIVE
    return 0


if __name__ == "__main__":
    main()
