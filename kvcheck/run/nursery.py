"""The nursery: a warmed, single-threaded process that has the target loaded and forks a child for every case.

Started as `python -m kvcheck.run.nursery SPEC DEVICE JOBS LOAD_TIMEOUT [ARCH]`. Jobs come as JSON lines on standard
input, answers go as JSON lines to the pipe that was standard output; the real standard output and error are redirected,
so that nothing that a target prints can be taken for an answer. It never touches CUDA itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from kvcheck.api import StoreTarget
from kvcheck.errors import KvcheckError, TargetError
from kvcheck.run.cold import fresh_command
from kvcheck.run.hanging import tell, tell_no_more
from kvcheck.run.imports import uncollected
from kvcheck.run.kernel_cache import kernel_cache
from kvcheck.run.limits import limits_here
from kvcheck.run.protocol import MARK, Answers, Hello, TargetInfo
from kvcheck.run.serve import Serving, serve
from kvcheck.run.shield import end_by_itself, end_with
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


def main(spec: str, device: str, jobs: str, load_timeout: str, arch: str = "") -> int:
    """Load the target, say hello, and serve until standard input ends, which says that the run is over or gone.

    `arch` is the one whose code generation the target's Triton kernels get; without it, this GPU's own, or sm_90's in
    the interpreter. Seconds to load are the run's to count, but for cases that load the target themselves.
    """
    answers = Answers(os.dup(1), os.environ.get(MARK, ""))
    os.dup2(2, 1)
    here = Path.cwd()
    _hear_children()
    end_with(os.getppid())  # an import that hangs does not see standard input end
    tell()
    try:
        with uncollected():
            machine = _pick_machine(device, arch)
            add_engine_roots()
            before = _left_open()
            loaded, missing = _load(spec)
            _hear_children()
            hello = _hello(loaded, missing, machine, _reason_for_fresh(before, _left_open()))
        tell_no_more()
        end_by_itself()
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
    serving = Serving(answers, {one.target.name: one for one in loaded}, machine.cuda, int(jobs), limits_here())
    if hello.fresh is not None:
        os.chdir(here)  # a fresh interpreter looks for the target where this one did
        serving.imports = float(load_timeout)
        serving.fresh = fresh_command(spec, cuda=machine.cuda, arch=machine.arch, jobs=int(jobs))
    serve(serving)
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


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
