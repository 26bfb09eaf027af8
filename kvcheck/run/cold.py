"""The run's end of a fresh interpreter: start one for a job, wait for it, say how it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import msgspec

from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import Ended, Job

#: Seconds that importing torch, triton and a target may take, beyond a case's own limit.
IMPORTS = 60.0


def start_fresh(nursery: Nursery, job: Job) -> subprocess.Popen[bytes]:
    """Start a job in a fresh interpreter with a session of its own, as the nursery would: same target, arch, GPU."""
    device = "cuda" if nursery.hello.cuda else "cpu"
    command = [sys.executable, "-m", "kvcheck.run.fresh", nursery.spec, device, nursery.hello.arch, str(nursery.jobs)]
    process = subprocess.Popen(  # noqa: S603 - this very program
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        env=nursery.environment(),
    )  # fmt: skip
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(msgspec.json.encode(job))
    return process


def run_fresh(nursery: Nursery, job: Job) -> Ended:
    """Run a job in a fresh interpreter and wait for its end. Whatever it has started is killed with it."""
    began = time.monotonic()
    process = start_fresh(nursery, job)
    timed_out = False
    try:
        process.wait(job.timeout + IMPORTS)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    seconds = time.monotonic() - began
    return Ended(job.number, code if code >= 0 else None, -code if code < 0 else None, seconds, timed_out)
