"""The nursery: a warmed, single-threaded process that has the target loaded and forks a child for every case.

Started as `python -m kvcheck.run.nursery SPEC DEVICE JOBS LOAD_TIMEOUT [ARCH]`. Jobs come as JSON lines on standard
input, answers go as JSON lines to the pipe that was standard output; the real standard output and error are redirected,
so that nothing that a target prints can be taken for an answer. It never touches CUDA itself.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kvcheck.api import StoreTarget
from kvcheck.errors import KvcheckError, TargetError
from kvcheck.run.child import own_files, run_alone
from kvcheck.run.cold import fresh_command, start_fresh
from kvcheck.run.hanging import tell, tell_no_more
from kvcheck.run.kernel_cache import kernel_cache
from kvcheck.run.limits import EVERY, Limits, limits_here
from kvcheck.run.outside import killed_from_outside, stopped
from kvcheck.run.protocol import MARK, Answers, Ended, Hello, Job, TargetInfo
from kvcheck.run.shield import behind
from kvcheck.schema import Execution
from kvcheck.targets.engine import MissingEngineError, add_engine_roots
from kvcheck.targets.identity import engine_files, kernels_sha256, path_of, uses_triton, version_of
from kvcheck.targets.load import Loaded, load

#: What a run without a GPU and without `--arch` stands for.
INTERPRETED_FOR = "sm_90"


@dataclass(frozen=True)
class _Machine:
    """Where cases run: on CUDA or not; the GPU's own arch, empty without one; the arch to run as."""

    cuda: bool
    own_arch: str
    arch: str


@dataclass
class _Child:
    job: Job
    pid: int
    started: float
    killed: bool = False
    limit: str = ""
    """The limit, other than of time, at which it was killed."""
    stopped: bool = False
    """Whether it was stopped when its time was over."""


@dataclass
class _State:
    answers: Answers
    loaded: dict[str, Loaded]
    cuda: bool
    limit: int
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


def main(spec: str, device: str, jobs: str, load_timeout: str, arch: str = "") -> int:
    """Load the target, say hello, and serve until standard input ends, which says that the run is over or gone.

    `arch` is the one whose code generation the target's Triton kernels get; without it, this GPU's own, or sm_90's in
    the interpreter. Seconds to load are the run's to count, but for cases that load the target themselves.
    """
    answers = Answers(os.dup(1), os.environ.get(MARK, ""))
    os.dup2(2, 1)
    here = Path.cwd()
    _hear_children()
    tell()
    try:
        machine = _pick_machine(device, arch)
        add_engine_roots()
        before = _left_open()
        loaded, missing = _load(spec)
        _hear_children()
        hello = _hello(loaded, missing, machine, _reason_for_fresh(before, _left_open()))
        tell_no_more()
    except MissingEngineError as error:
        answers.say(Hello(missing=str(error)))
        return 0
    except KvcheckError as error:
        answers.say(Hello(error=str(error), of_target=isinstance(error, TargetError)))
        return 0
    except RuntimeError as error:
        answers.say(Hello(error=f"device {device!r}: {error}"))
        return 0
    answers.say(hello)
    state = _State(answers, {one.target.name: one for one in loaded}, machine.cuda, int(jobs), limits_here())
    if hello.fresh is not None:
        os.chdir(here)  # a fresh interpreter looks for the target where this one did
        state.imports = float(load_timeout)
        state.fresh = fresh_command(spec, cuda=machine.cuda, arch=machine.arch, jobs=int(jobs))
    try:
        _serve(state)
    finally:
        for pid in state.children:
            _kill_group(pid)
    return 0


def _pick_machine(device: str, arch: str) -> _Machine:
    """Where to run, and as what. Sets Triton up for it, so it must come before anything imports triton."""
    cuda = device != "cpu" and _sees_gpu()
    if device.startswith("cuda") and not cuda:
        raise KvcheckError(f"device {device!r}: torch sees no GPU here; expected an NVIDIA GPU, or --device cpu")
    if not cuda:
        os.environ["TRITON_INTERPRET"] = "1"
        return _kept_apart(_Machine(cuda=False, own_arch="", arch=arch or INTERPRETED_FOR))
    from kvcheck.run.environment import arch_of_gpu, in_child  # noqa: PLC0415 - imports torch

    own = str(in_child(lambda: {"arch": arch_of_gpu()})["arch"])
    if arch and arch != own:
        os.environ["TRITON_OVERRIDE_ARCH"] = arch.replace("_", "")
    return _kept_apart(_Machine(cuda=True, own_arch=own, arch=arch or own))


def _kept_apart(machine: _Machine) -> _Machine:
    """The machine, whose kernels Triton is told to keep apart: only here is it known which those are."""
    os.environ.update(kernel_cache(machine.arch, machine.own_arch))
    return machine


def _left_open() -> tuple[int, bool]:
    """This process's threads, and whether it holds a GPU open."""
    files = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are enough
        with contextlib.suppress(OSError):
            files.append(os.readlink(f"/proc/self/fd/{name}"))  # noqa: PTH115 - /proc's are no paths
    gpu = any(file.startswith("/dev/nvidia") for file in files)
    return len(os.listdir("/proc/self/task")), gpu  # noqa: PTH208


def _reason_for_fresh(before: tuple[int, bool], after: tuple[int, bool]) -> str | None:
    """Why a process is not to be forked once a target is loaded, or None.

    A fork has none of the threads, and every lock as a thread left it; and a context does not survive a fork.
    """
    threads, opened = after[0] - before[0], after[1] and not before[1]
    said = [f"left {threads} more thread{'s' if threads > 1 else ''} running"] if threads > 0 else []
    said += ["opened the GPU"] if opened else []
    return f"importing the target {' and '.join(said)}" if said else None


def _hear_children() -> None:
    """Undo what an import, or whoever started the run, may have done to signals: without SIGCHLD no end is known."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _sees_gpu() -> bool:
    import torch  # noqa: PLC0415 - two seconds, which a target that cannot be loaded on the CPU need not cost

    return torch.cuda.is_available()


def _load(spec: str) -> tuple[tuple[Loaded, ...], dict[str, str]]:
    """The targets of a spec, prepared; and, by name, why the engine of one cannot be imported."""
    loaded = load(spec)
    missing: dict[str, str] = {}
    for one in loaded:
        if one.target.prepare is not None:
            try:
                one.target.prepare()
            except MissingEngineError as error:
                missing[one.target.name] = str(error)
            except Exception as error:
                raise TargetError(f"target {spec!r}: prepare raised {type(error).__name__}: {error}") from error
    return loaded, missing


def _hello(loaded: tuple[Loaded, ...], missing: dict[str, str], machine: _Machine, fresh: str | None) -> Hello:
    import kvcheck.run.case  # noqa: F401, PLC0415 - what every child needs, loaded once before the forks
    from kvcheck.lowering.triton_launches import warm  # noqa: PLC0415
    from kvcheck.run.environment import environment, gpu_label, in_child  # noqa: PLC0415
    from kvcheck.run.rehearse import rehearse_interpreted, share_memory  # noqa: PLC0415

    warm(interpreted=not machine.cuda)
    facts = in_child(lambda: {**environment(cuda=machine.cuda), "label": gpu_label() if machine.cuda else ""})
    label = str(facts.pop("label"))
    if fresh is not None:
        facts["fresh_interpreters"] = fresh
    infos = tuple(_info(one, missing.get(one.target.name), machine) for one in loaded)
    doubt = None
    if any(info.execution == "interpreted" for info in infos):
        doubt = _correct_interpreter(machine.arch)
        rehearse_interpreted()
    share_memory()
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - names are enough
    return Hello(infos, machine.cuda, machine.arch, facts, threads, device=label, fresh=fresh, doubt=doubt)


def _correct_interpreter(arch: str) -> str | None:
    """Make Triton's interpreter convert as the arch's compiler does. Why it does not, or None."""
    from kvcheck.lowering.interpreter_cast import install  # noqa: PLC0415 - imports triton
    from kvcheck.lowering.interpreter_probe import probe  # noqa: PLC0415

    install(arch)
    return probe(arch)


def _info(one: Loaded, missing: str | None, machine: _Machine) -> TargetInfo:
    target = one.target
    triton = uses_triton(one.module)
    execution: Execution = "interpreted" if triton else "host"
    if machine.cuda:
        execution = "lowered" if triton and machine.arch != machine.own_arch else "native"
    return TargetInfo(
        target.name, "store" if isinstance(target, StoreTarget) else "load", target.contract, target.accepts,
        target.form, target.refuses, target.declares, kernels_sha256(one.module),
        path_of(one.module), execution, triton, machine.own_arch, version_of(one.module), missing,
        engine_files(one.module),
    )  # fmt: skip


def _serve(state: _State) -> None:
    """Read jobs, start children while there is room, reap those that end, kill those that overstay."""
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
            while state.waiting and len(state.children) < state.limit:
                _start(state, state.waiting.pop(0))


def _until_next_limit(state: _State) -> float | None:
    """Seconds until the children are to be looked at: their memory, or because one's time is up. None without any."""
    if not state.children:
        return None
    now = time.monotonic()
    limits = [child.started + _limit(state, child.job) for child in state.children.values() if not child.killed]
    return min(EVERY, max(0.0, min(limits, default=now + EVERY) - now))


def _limit(state: _State, job: Job) -> float:
    """Seconds that a child may take."""
    return job.timeout + state.imports


def _read_jobs(state: _State) -> None:
    data = os.read(0, 1 << 16)
    if not data:
        # The run never closes this pipe while it waits for answers: it was killed, and nobody reads them.
        state.open = False
        return
    *lines, state.buffer = (state.buffer + data).split(b"\n")
    state.waiting += [msgspec.json.decode(line, type=Job) for line in lines]


def _start(state: _State, job: Job) -> None:
    started = time.monotonic()
    pid = os.fork() if state.fresh is None else start_fresh(state.fresh, job, dict(os.environ))
    if pid == 0:
        try:
            _become_child(state, job)
        finally:
            os._exit(70)  # not reached unless the child's own set-up failed
    state.children[pid] = _Child(job, pid, started)


def _become_child(state: _State, job: Job) -> None:
    """Never returns: a session of its own, its own output files, no way to the parent's pipes."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    own_files(job)
    run_alone(job, state.loaded[job.target].target, cuda=state.cuda, jobs=state.limit)


def _reap(state: _State) -> None:
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


def _kill_overstayers(state: _State) -> None:
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


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
