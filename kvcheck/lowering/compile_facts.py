"""What the compiler makes of a target's own launches, for any arch, without its GPU: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

import msgspec

from kvcheck.errors import KvcheckError
from kvcheck.lowering.archs import check_arch
from kvcheck.lowering.facts import CompileFact
from kvcheck.schema import Case

#: Seconds that one worker may take for all archs.
TIMEOUT = 600.0
#: The process that calls the target. It wires stages together, so it lies among what runs them.
WORKER = "kvcheck.run.compile_worker"
#: What would make Triton interpret, or compile for an arch that nobody asked for; and what starts threads.
_UNSET = ("TRITON_INTERPRET", "TRITON_OVERRIDE_ARCH")
_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class CompileRequest(msgspec.Struct, frozen=True):
    """What a worker is asked to compile: the launches of a target's cases, for every arch."""

    spec: str
    cases: tuple[Case, ...]
    archs: tuple[str, ...]


class CompileAnswer(msgspec.Struct, frozen=True):
    """What a worker found, or why it found nothing."""

    facts: tuple[CompileFact, ...] = ()
    error: str | None = None


def compile_facts(
    spec: str,
    cases: Sequence[Case],
    archs: Sequence[str],
    *,
    timeout: float = TIMEOUT,
    variables: Mapping[str, str] | None = None,
) -> tuple[CompileFact, ...]:
    """What became of every kernel that the target `spec` launches for `cases`, by arch, in the order of `archs`.

    Cases outside what a target takes are left out. Equal facts of several launches are one, with their number. A
    compiler that dies takes its arch's process along and is a failure. `variables` are added to the worker's
    environment. Raises KvcheckError, one line, for an unknown arch or target, and where the worker does not
    answer within `timeout` seconds.
    """
    for arch in archs:
        check_arch(arch)
    request = CompileRequest(spec, tuple(cases), tuple(archs))
    kept = {key: value for key, value in os.environ.items() if key not in _UNSET}
    environment = {**kept, **_THREADS, **(variables or {})}
    command = [sys.executable, "-m", WORKER]
    try:
        done = subprocess.run(  # noqa: S603 - this very program
            command, input=msgspec.json.encode(request), capture_output=True, env=environment, timeout=timeout,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise KvcheckError(f"target {spec!r}: compiling took more than {timeout:g} seconds") from error
    if not done.stdout:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise KvcheckError(
            f"target {spec!r}: the process that compiles it ended with status {done.returncode}: {lines[-1:]}"
        )
    try:
        answer = msgspec.json.decode(done.stdout, type=CompileAnswer)
    except msgspec.MsgspecError as error:  # the target writes where the answer goes
        raise KvcheckError(f"target {spec!r}: the process that compiles it gave no answer: {error}") from error
    if answer.error is not None:
        raise KvcheckError(answer.error)
    return answer.facts
