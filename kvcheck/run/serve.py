"""The jobs of a run, served by forked children or fresh interpreters: so many at a time, none past its limits."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kvcheck.run.child import own_files, run_alone
from kvcheck.run.cold import start_fresh, unstarted
from kvcheck.run.limits import EVERY, Limits
from kvcheck.run.outside import killed_from_outside, stopped
from kvcheck.run.protocol import UNSET, Answers, Ended, Job
from kvcheck.run.shield import behind, end_with
from kvcheck.targets.load import Loaded

#: Seconds to wait for a process where the machine has none to give and no child will end.
SHORT = 0.2


@dataclass
class _Child:
    """A case under way."""

    job: Job
    pid: int
    started: float
    killed: bool = False
    limit: str = ""
    """The limit, other than of time, at which it was killed."""
    stopped: bool = False
    """Whether it was stopped when its time was over."""


@dataclass
class Serving:
    """What is served, and how far it is."""

    answers: Answers
    loaded: dict[str, Loaded]
    """The targets by name."""
    cuda: bool
    limit: int
    """Children at a time."""
    limits: Limits
    imports: float = 0.0
    """Seconds beyond its own limit that a case's process may take: to import what a fork has."""
    waiting: list[Job] = field(default_factory=list)
    children: dict[int, _Child] = field(default_factory=dict)
    fresh: list[str] | None = None
    """The command of a fresh interpreter for each case, where this process must not fork."""
    open: bool = True
    buffer: bytes = b""
    look: float = 0.0
    """When the children's memory and files are looked at next."""


def serve(state: Serving) -> None:
    """Read jobs, start children while there is room, reap those that end, kill those that overstay.

    Ends where standard input does: the run never closes it while it waits for answers. No child outlives it.
    """
    try:
        _loop(state)
    finally:
        for pid in state.children:
            _kill_group(pid)


def _loop(state: Serving) -> None:
    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_writer, False)
    signal.set_wakeup_fd(wake_writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    os.set_blocking(0, False)
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(wake_reader, selectors.EVENT_READ)
        while state.open:
            for key, _ in selector.select(_until_next_limit(state)):
                if key.fd == 0:
                    _read_jobs(state)
                else:
                    os.read(wake_reader, 4096)
            _reap(state)
            _kill_overstayers(state)
            while state.waiting and len(state.children) < state.limit and _started(state, state.waiting[0]):
                state.waiting.pop(0)


def _until_next_limit(state: Serving) -> float | None:
    """Seconds until the children are to be looked at: their memory, or because one's time is up. None without any."""
    if not state.children:
        return None
    now = time.monotonic()
    limits = [child.started + _limit(state, child.job) for child in state.children.values() if not child.killed]
    return min(EVERY, max(0.0, min(limits, default=now + EVERY) - now))


def _limit(state: Serving, job: Job) -> float:
    """Seconds that a child may take."""
    return job.timeout + state.imports


def _read_jobs(state: Serving) -> None:
    data = os.read(0, 1 << 16)
    if not data:
        # The run never closes this pipe while it waits for answers: it was killed, and nobody reads them.
        state.open = False
        return
    *lines, state.buffer = (state.buffer + data).split(b"\n")
    state.waiting += [msgspec.json.decode(line, type=Job) for line in lines]


def _started(state: Serving, job: Job) -> bool:
    """Start a job's child. False where it has to wait: there is no process to be had until another child ends."""
    started, nursery = time.monotonic(), os.getpid()
    try:
        pid = os.fork() if state.fresh is None else start_fresh(state.fresh, job, dict(os.environ))
    except OSError as error:
        if state.children:
            return False
        time.sleep(SHORT)  # as any that the machine may have ended, it is tried once more
        state.answers.say(unstarted(job, error))
        return True
    if pid == 0:
        try:
            _become_child(state, job, nursery)
        finally:
            os._exit(UNSET)  # not reached unless the child's own set-up failed
    state.children[pid] = _Child(job, pid, started)
    return True


def _become_child(state: Serving, job: Job, nursery: int) -> None:
    """Never returns: a session of its own, its own output files, no way to the parent's pipes.

    It is killed with the nursery, which would else have been the one to do so: also where somebody has stopped it.
    """
    end_with(nursery)  # first of all: what is stopped before it stays
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    own_files(job)
    run_alone(job, state.loaded[job.target].target, cuda=state.cuda, jobs=state.limit)


def _reap(state: Serving) -> None:
    while state.children:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        child = state.children.pop(pid, None)
        if child is None:
            continue
        _kill_group(pid)  # what the case itself has started and left behind
        code = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - child.started
        late = child.killed and not child.limit
        exit_status, number = (code, None) if code >= 0 else (None, -code)
        outside = child.stopped or (not child.killed and killed_from_outside(number, Path(child.job.folder)))
        state.answers.say(Ended(child.job.number, exit_status, number, seconds, late, child.limit, outside))


def _kill_overstayers(state: Serving) -> None:
    """Kill the children, each with its group, that are over a limit."""
    now = time.monotonic()
    for child in state.children.values():
        if child.killed:
            continue
        late = now >= child.started + _limit(state, child.job)
        runs = child.pid if state.fresh is None else behind(child.pid)
        if not late and now >= state.look:
            child.limit = state.limits.exceeded(runs, child.job.folder) or ""
        if late or child.limit:
            child.killed = True
            child.stopped = late and (stopped(child.pid) or stopped(runs))
            _kill_group(child.pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
    if now >= state.look:
        state.look = now + EVERY


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
