"""One case in a fresh interpreter: nothing is inherited from another case, nor from a process that forks.

Started as `python -m kvcheck.run.fresh SPEC cpu|cuda ARCH JOBS` with the job as JSON on standard input, in the
environment that `Nursery.environment` gives. It leaves in the job's folder what a nursery's child does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from kvcheck.api import Target
from kvcheck.run.child import own_files, run_alone
from kvcheck.run.imports import uncollected
from kvcheck.run.outside import note_sender
from kvcheck.run.protocol import Job
from kvcheck.run.shield import shielded


def main(spec: str, device: str, arch: str, jobs: str) -> int:
    """Load the target and run the case. 2 where the target cannot be loaded; else `run_alone` ends the process."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    own_files(job)
    note_sender(Path(job.folder))
    shielded()
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    with uncollected():
        target = _loaded(spec, device, arch, job.target)
    if target is not None:
        run_alone(job, target, cuda=device != "cpu", jobs=int(jobs))
    sys.stderr.write(f"target {spec!r} holds no {job.target!r} any more\n")
    return 2


def _loaded(spec: str, device: str, arch: str, name: str) -> Target | None:
    """The target of that name, ready to be called, and all that its case needs; None where the spec has it no more."""
    from kvcheck.lowering.triton_key import remember_triton_key  # noqa: PLC0415 - the interpreter is chosen first
    from kvcheck.targets.engine import add_engine_roots  # noqa: PLC0415
    from kvcheck.targets.identity import uses_triton  # noqa: PLC0415
    from kvcheck.targets.load import load  # noqa: PLC0415

    add_engine_roots()
    for one in load(spec):
        if one.target.name == name:
            if one.target.prepare is not None:
                one.target.prepare()
            if device == "cpu" and uses_triton(one.module):
                from kvcheck.lowering.interpreter_cast import install  # noqa: PLC0415

                install(arch)
            import kvcheck.run.case  # noqa: F401, PLC0415 - it would be imported outside the block

            remember_triton_key()
            return one.target
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
