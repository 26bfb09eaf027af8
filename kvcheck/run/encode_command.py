"""Run encoders, each arch in a process of its own, and put together what they found."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone

import msgspec

import kvcheck
from kvcheck.encode.facts import Declared, Dtype, EncodeReport, EncoderResult
from kvcheck.errors import KvcheckError, SelectionError
from kvcheck.lowering.archs import AMD, cast_model
from kvcheck.run.encode_protocol import MODEL, SOFTWARE, TORCH, TRITON, EncodeAnswer, EncodeRequest

WORKER = "kvcheck.run.encode_worker"
#: The archs whose casts can differ: those run where none is asked for.
USUAL = ("sm_89", "sm_90", "sm_100", "sm_120")
#: What an encoder that is not Triton's has no lowering of: it runs once.
_NO_ARCH = (TORCH,)
_UNSET = ("TRITON_INTERPRET", "TRITON_OVERRIDE_ARCH")
_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

OnDone = Callable[[tuple[EncoderResult, ...]], None]


@dataclass(frozen=True)
class EncodeOptions:
    """What a run of `kvcheck encode` is asked to do."""

    encoders: tuple[str, ...] = ()
    """Built-in encoders; empty: all, or none where there are targets."""
    targets: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    dtypes: tuple[Dtype, ...] = ("fp32", "bf16", "fp16")
    device: str = "auto"
    exhaustive: bool = False
    require_native: bool = False
    timeout: float = 600.0
    """Seconds that one process may take."""


@dataclass
class _Processes:
    """Those under way, so that Ctrl-C leaves none."""

    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def kill(self) -> None:
        for process in self.running:
            with contextlib.suppress(OSError):
                process.kill()


def run_encoders(options: EncodeOptions, command: str, on_done: OnDone) -> EncodeReport:
    """Run every encoder asked for; `on_done` is called with each process's results, as they come.

    Raises KvcheckError for an unknown arch or device, and for a target that cannot be loaded.
    """
    own = _gpu_arch(options.device)
    requests = plan(options, own)
    processes = _Processes()
    results: dict[int, EncodeAnswer] = {}
    # A GPU is one; processes spend most of their time importing.
    with ThreadPoolExecutor(max_workers=2) as pool:
        futures = [pool.submit(_answer, request, options.timeout, processes) for request in requests]
        try:
            for number, future in enumerate(futures):
                results[number] = future.result()
                on_done(_checked(results[number], options))
        except BaseException:
            for future in futures:
                future.cancel()
            processes.kill()
            raise
    answers = [results[number] for number in range(len(requests))]
    environment = next((answer.environment for answer in answers if answer.environment), {})
    return EncodeReport(
        kvcheck=kvcheck.__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=command,
        environment=environment,
        results=tuple(result for answer in answers for result in _checked(answer, options)),
    )


def plan(options: EncodeOptions, own: str) -> list[EncodeRequest]:
    """A request for each process: for each arch its built-in encoders, and each target alone, since it may crash.

    `own` is this GPU's arch, empty on the CPU. Raises SelectionError for an unknown arch.
    """
    archs = options.archs or tuple(dict.fromkeys((own, *USUAL) if own else USUAL))
    for arch in archs:
        cast_model(arch)
        if arch in AMD and own:
            raise SelectionError(f"--arch {arch}: an NVIDIA GPU runs no lowering for AMD's")
    names = options.encoders or (() if options.targets else (TRITON, SOFTWARE, TORCH, *(() if own else (MODEL,))))
    requests = []
    for number, arch in enumerate(archs):
        here = tuple(name for name in names if number == 0 or name not in _NO_ARCH)
        # The interpreter adds integers alike for every arch: the software encoder is run there once.
        here = tuple(name for name in here if own or number == 0 or name != SOFTWARE)
        if here:
            requests.append(EncodeRequest(here, None, arch, own, options.dtypes, options.exhaustive))
        target_archs = archs if own or options.archs else archs[:1]
        if arch in target_archs:
            requests += [
                EncodeRequest((), spec, arch, own, options.dtypes, options.exhaustive) for spec in options.targets
            ]
    return requests


def _gpu_arch(device: str) -> str:
    """This GPU's arch; empty where there is none or the CPU is asked for. CUDA starts in a child alone."""
    if device == "cpu":
        return ""
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import torch  # noqa: PLC0415 - two seconds

    if not torch.cuda.is_available():
        if device == "cuda":
            raise SelectionError("--device cuda: torch sees no GPU here; expected an NVIDIA GPU, or --device cpu")
        return ""
    from kvcheck.run.environment import arch_of_gpu, in_child  # noqa: PLC0415

    try:
        return str(in_child(lambda: {"arch": arch_of_gpu()})["arch"])
    except RuntimeError as error:
        raise KvcheckError(f"--device {device}: {error}") from error


def _environment(request: EncodeRequest) -> dict[str, str]:
    base = {key: value for key, value in os.environ.items() if key not in _UNSET}
    if not request.own:
        return {**base, **_THREADS, "TRITON_INTERPRET": "1"}
    if request.arch != request.own:
        return {**base, "TRITON_OVERRIDE_ARCH": request.arch.replace("_", "")}
    return base


def _answer(request: EncodeRequest, timeout: float, processes: _Processes) -> EncodeAnswer:
    """Run a request. Where the process of a whole file is lost, each of its encoders gets one of its own."""
    found = _of_process(request, timeout, processes)
    if request.target is None or "::" in request.target or not _is_lost(found):
        return found
    listed = _of_process(msgspec.structs.replace(request, names_only=True), timeout, processes).names
    alone = (msgspec.structs.replace(request, target=f"{request.target}::{name}") for name in listed)
    answers = [_of_process(each, timeout, processes) for each in alone]
    environment = next((answer.environment for answer in answers if answer.environment), {})
    return (
        EncodeAnswer(tuple(result for answer in answers for result in answer.results), environment)
        if answers
        else found
    )


def _is_lost(answer: EncodeAnswer) -> bool:
    """Whether a process died or was killed before it could answer: no result has an encoder's declaration."""
    return bool(answer.results) and not any(result.declared.format for result in answer.results)


def _of_process(request: EncodeRequest, timeout: float, processes: _Processes) -> EncodeAnswer:
    """Start a process for a request and wait for it. One that dies or takes too long is a result of its own."""
    process = subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, "-m", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=_environment(request),
    )  # fmt: skip
    processes.running.append(process)
    try:
        out, printed = process.communicate(msgspec.json.encode(request), timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return _lost(request, "timeout", f"the process that runs it took more than {timeout:g} seconds")
    finally:
        processes.running.remove(process)
    if process.returncode == 0 and out:
        with contextlib.suppress(msgspec.DecodeError):
            found = msgspec.json.decode(out, type=EncodeAnswer)
            if found.error is not None:
                raise KvcheckError(found.error)
            return found
    lines = printed.decode(errors="replace").strip().splitlines()
    return _lost(request, "crash", f"the process ended with status {process.returncode}: {' '.join(lines[-1:])}")


def _lost(request: EncodeRequest, outcome: str, reason: str) -> EncodeAnswer:
    """The results of a process that gave none."""
    names = request.encoders or ((request.target or "").rpartition("::")[2],)
    execution = "interpreted" if not request.own else "native" if request.arch == request.own else "lowered"
    lost = tuple(
        EncoderResult(
            encoder=name, arch=request.arch, execution=execution, device="", dtype=dtype,
            declared=Declared("", "", "", "", ""), outcome=outcome, reason=reason,  # type: ignore[arg-type]
        )
        for name in names
        for dtype in request.dtypes
    )  # fmt: skip
    return EncodeAnswer(lost)


def _checked(answer: EncodeAnswer, options: EncodeOptions) -> tuple[EncoderResult, ...]:
    """The results; those that did not run natively are inconclusive where that is required."""
    if not options.require_native:
        return answer.results
    return tuple(
        result
        if result.execution == "native"
        else msgspec.structs.replace(
            result, outcome="inconclusive", reason=f"--require-native: this ran {result.execution}, as {result.arch}"
        )
        for result in answer.results
    )
