"""Fresh interpreters: start one for a job, wait for several, say how they ended."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from kvcheck.run.outside import killed_from_outside, stopped
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import JOB, MARK, Ended, Job
from kvcheck.run.shield import behind


def fresh_command(spec: str, *, cuda: bool, arch: str, jobs: int) -> list[str]:
    """The command of a fresh interpreter that loads a target and takes one job of it."""
    return [sys.executable, "-m", "kvcheck.run.fresh", spec, "cuda" if cuda else "cpu", arch, str(jobs)]


def start_fresh(command: list[str], job: Job, environment: Mapping[str, str]) -> int:
    """Start a job in a fresh interpreter with a session of its own; its process id, which is to be waited for.

    Spawned, never forked: the caller may have threads.
    """
    file = Path(job.folder) / JOB
    file.write_bytes(msgspec.json.encode(job))
    opened = [
        (os.POSIX_SPAWN_OPEN, 0, str(file), os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    return os.posix_spawn(command[0], command, environment, file_actions=opened, setsid=True)


def unstarted(job: Job, error: OSError) -> Ended:
    """The end of a job for which there was no process. It is no doing of the case's own."""
    why = error.strerror or str(error)
    return Ended(job.number, None, None, 0.0, timed_out=False, outside=True, unstarted=why)


def run_fresh(nursery: Nursery, jobs: Sequence[Job], *, at_a_time: int) -> list[Ended]:
    """Run jobs in fresh interpreters as the nursery would: same target, arch and GPU; so many at a time.

    Waits for their ends, in the jobs' order. Whatever they have started is killed with them; what has left their
    sessions, with the nursery.
    """
    command = fresh_command(nursery.spec, cuda=nursery.hello.cuda, arch=nursery.hello.arch, jobs=nursery.jobs)
    environment = {**nursery.environment(), MARK: nursery.mark}
    running: dict[int, tuple[Job, float]] = {}
    waiting = list(reversed(jobs))
    ended: dict[int, Ended] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_a_time:
                job = waiting.pop()
                try:
                    running[start_fresh(command, job, environment)] = job, time.monotonic()
                except OSError as error:
                    ended[job.number] = unstarted(job, error)
            for pid, (job, began) in list(running.items()):
                seconds = time.monotonic() - began
                late = seconds >= job.timeout + nursery.load_timeout
                halted = late and (stopped(pid) or stopped(behind(pid)))
                if late:
                    _kill(pid)
                done, status = os.waitpid(pid, 0 if late else os.WNOHANG)
                if done:
                    del running[pid]
                    _kill(pid)
                    ended[job.number] = _ended(job, status, seconds, late=late, halted=halted)
            time.sleep(0.005)
    finally:
        for pid in running:
            _kill(pid)
            os.waitpid(pid, 0)
    return [ended[job.number] for job in jobs]


def _ended(job: Job, status: int, seconds: float, *, late: bool, halted: bool) -> Ended:
    code = os.waitstatus_to_exitcode(status)
    exit_status, number = (code, None) if code >= 0 else (None, -code)
    outside = halted or (not late and killed_from_outside(number, Path(job.folder)))
    return Ended(job.number, exit_status, number, seconds, late, outside=outside)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
