"""The run's end of a nursery: start it, hand it jobs, take what it says, outlive its death."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import deque
from multiprocessing.connection import wait
from types import TracebackType
from typing import IO

import msgspec

from kvcheck.errors import KvcheckError, TargetError
from kvcheck.run.devices import visible
from kvcheck.run.hanging import ask
from kvcheck.run.huge_pages import asking_for_large_pages
from kvcheck.run.interrupts import Held
from kvcheck.run.kernel_cache import kernel_cache
from kvcheck.run.marked import end_marked, kill
from kvcheck.run.options import Options
from kvcheck.run.outside import Waker
from kvcheck.run.protocol import MARK, Ended, Hello, Job, spoken
from kvcheck.targets.engine import ENGINE_PATH

#: Libraries that start threads at import do not when told so before: a process with threads is not safe to fork.
SINGLE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


#: Seconds after which whoever waits looks for processes that have been stopped.
LOOK = 1.0


class NurseryLostError(Exception):
    """The nursery died with cases under way, or says what cannot be read."""


class Nursery:
    """One nursery process. A context manager: leaving it ends the process and everything it started."""

    def __init__(self, spec: str, options: Options, arch: str = "") -> None:
        """Start it and wait for its hello. Raises KvcheckError, one line, where it cannot serve.

        `arch` is the one asked for, empty for the machine's own. A TargetError says that it is the target which cannot
        be loaded, or not in time.
        """
        self.arch = arch
        self.load_timeout = options.load_timeout
        self.spec, self.jobs = spec, options.jobs
        self._device = options.device
        self._engines = os.pathsep.join(str(path.resolve()) for path in options.engine_paths)
        self._command = [
            sys.executable, "-m", "kvcheck.run.nursery", spec, options.device, str(options.jobs),
            str(options.load_timeout), arch,
        ]  # fmt: skip
        self.mark = secrets.token_hex(16)
        self._process, self.hello = self._start()

    def restart(self) -> None:
        """Start another in the place of one that died, and kill what that one left running. Raises KvcheckError."""
        self.stop()
        self._process, self.hello = self._start()

    def environment(self) -> dict[str, str]:
        """The environment of a process that is to load the target as the nursery does, of the same arch and caches."""
        lowered = any(info.execution == "lowered" for info in self.hello.targets)
        arch = {"TRITON_OVERRIDE_ARCH": self.arch.replace("_", "")} if lowered else {}
        own = next((info.native_arch for info in self.hello.targets), "")
        return {**_environment(self._device), **arch, **kernel_cache(self.hello.arch, own), ENGINE_PATH: self._engines}

    def _start(self) -> tuple[subprocess.Popen[bytes], Hello]:
        with tempfile.TemporaryFile() as log:
            with Held():
                try:
                    process = subprocess.Popen(  # noqa: S603 - this very program
                        self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                        env={**_environment(self._device), MARK: self.mark, ENGINE_PATH: self._engines},
                        start_new_session=True,
                    )  # fmt: skip
                except OSError as error:
                    why = error.strerror or str(error)
                    raise KvcheckError(f"the process that loads {self.spec!r} cannot be started: {why}") from error
                self._process = process
            self._waker = Waker(process.pid)
            self._ended: deque[Ended] = deque()
            self._rest = b""
            try:
                hello = self._heard_hello(log)
            except BaseException:  # Ctrl-C
                self.stop()
                raise
            if hello is None:
                self.stop()
                raise TargetError(f"target {self.spec!r}: {_last_words(log, process.returncode)}")
        if hello.error is not None:
            self.stop()
            raise (TargetError if hello.of_target else KvcheckError)(hello.error)
        return process, hello

    def _heard_hello(self, log: IO[bytes]) -> Hello | None:
        """The nursery's hello; None where it ends before, or says something else in its place.

        Raises TargetError where it takes too long.
        """
        until = time.monotonic() + self.load_timeout
        answers, rest = self.answers().fileno(), b""
        while (left := until - time.monotonic()) > 0:
            self.wake()
            if not wait([answers], min(left, LOOK)):
                continue
            data = os.read(answers, 1 << 16)
            if not data:
                return None
            *lines, rest = (rest + data).split(b"\n")
            said = next((words for words in (spoken(line, self.mark) for line in lines) if words is not None), None)
            if said is not None:
                with contextlib.suppress(msgspec.MsgspecError):
                    return msgspec.json.decode(said, type=Hello)
                return None
        where = ask(self._process.pid, log)
        raise TargetError(
            f"target {self.spec!r}: not loaded after {self.load_timeout:g} s{f', in {where}' if where else ''}; "
            "--load-timeout gives it more"
        )

    def __enter__(self) -> Nursery:  # noqa: PYI034 - typing.Self came with Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def submit(self, job: Job) -> None:
        """Queue a job; the nursery starts as many at once as it was told to. Raises NurseryLostError."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(job) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise NurseryLostError from error

    def next_ended(self, seconds: float | None = None) -> Ended:
        """Wait for the next child that ends. Raises NurseryLostError where the nursery dies first, or says nothing."""
        until = math.inf if seconds is None else time.monotonic() + seconds
        while not self._ended:
            self.wake()
            if wait([self.answers().fileno()], LOOK):
                self._read()
            elif time.monotonic() > until:
                raise NurseryLostError
        return self._ended.popleft()

    def wake(self) -> None:
        """Continue it where a signal has stopped it. To be called every second or so."""
        self._waker.look()

    def take(self) -> list[Ended]:
        """The children that have ended since, where `answers` is ready. Raises NurseryLostError."""
        if not self._ended:
            self._read()
        taken = list(self._ended)
        self._ended.clear()
        return taken

    def _read(self) -> None:
        data = os.read(self.answers().fileno(), 1 << 16)
        if not data:
            raise NurseryLostError
        *lines, self._rest = (self._rest + data).split(b"\n")
        said = (spoken(line, self.mark) for line in lines)
        try:
            self._ended.extend(msgspec.json.decode(words, type=Ended) for words in said if words is not None)
        except msgspec.MsgspecError as error:
            raise NurseryLostError from error

    def stop(self) -> None:
        """End the nursery and all that it started, orphans and sessions of their own included."""
        with Held():
            kill(self._process.pid)
            self._process.wait()
            end_marked(self.mark)
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()

    @property
    def imports(self) -> float:
        """Seconds beyond a case's own limit that its process may take: to import what a fork has."""
        return 0.0 if self.hello.fresh is None else self.load_timeout

    @property
    def label(self) -> str:
        """Where its cases run: `cpu`, or which GPU."""
        if not self.hello.cuda:
            return "cpu"
        entry = self._device if ":" in self._device else "cuda:0"
        return ", ".join(filter(None, [entry, self.hello.device]))

    def answers(self) -> IO[bytes]:
        """The pipe on which it says how children have ended."""
        assert self._process.stdout is not None
        return self._process.stdout


def _last_words(log: IO[bytes], status: int) -> str:
    """One line on why a nursery ended before it said hello: its status and the last line it printed."""
    log.seek(0)
    lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    last = f": {lines[-1].strip()}" if lines else ""
    return f"the process that loads it ended with status {status}{last}"


def _environment(device: str) -> dict[str, str]:
    """The nursery's: one thread, large pages, and no CUDA at a mere look. Where kernels are kept it finds out."""
    env = {**os.environ, **SINGLE_THREAD, "PYTORCH_NVML_BASED_CUDA_CHECK": "1", "PYTHONUNBUFFERED": "1"}
    env |= visible(device, os.environ) | asking_for_large_pages(os.environ.get("GLIBC_TUNABLES"))
    for name in ("TRITON_INTERPRET", "TRITON_OVERRIDE_ARCH"):
        env.pop(name, None)
    return env
