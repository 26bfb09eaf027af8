"""compute-sanitizer: where it is, and one program under one of its tools. What it says is read elsewhere."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

NAME = "compute-sanitizer"

#: What it exits with where it has found something: unless told, it exits with 0.
FOUND = 66

#: Seconds that it may take to attach to the program. Its default, 10, is not enough on a busy machine.
ATTACH = 60

#: Bytes behind every allocation that memcheck keeps free: what reads past a tensor's end must not meet the next tensor.
PADDING = 1 << 20

MISSING = (
    f"{NAME} is not on this machine: it comes with the CUDA toolkit (package cuda-sanitizer-api, or "
    f"nvidia-cuda-sanitizer-api of PyPI), and is looked for on PATH and in CUDA_HOME; --device cpu needs none"
)


@dataclass(frozen=True)
class Output:
    """What a program under a tool left behind."""

    tool: str
    xml: bytes
    """The records as saved; empty where no file was."""
    text: str
    """What the tool said; where it did not come so far, all that was printed."""
    exit: int | None
    """The tool's exit status; None where it was killed at its time limit."""
    seconds: float
    logged: bool = True
    """Whether the text is the tool's own log. Else the program may have printed it."""


class Sanitizer:
    """An installed compute-sanitizer, and the programs that run under it now."""

    def __init__(self, path: str, version: str) -> None:
        self.path, self.version = path, version
        self._running: set[int] = set()
        self._stopped = False

    def stop(self) -> None:
        """Kill every program that runs under it, and start no other."""
        self._stopped = True
        for pid in tuple(self._running):
            _kill(pid)

    def run(
        self,
        tool: str,
        program: Sequence[str],
        folder: Path,
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
    ) -> Output:
        """Run a program under a tool and wait for it, `timeout` seconds at most. It may write to `folder`.

        `environment` is all that the program gets, None the process's own: a target's leaves out what would have Triton
        interpret its kernels.
        """
        xml, log, printed = (folder / f"{tool}.{end}" for end in ("xml", "log", "txt"))
        command = [
            self.path, "--tool", tool, "--xml", "--save", str(xml), "--log-file", str(log),
            "--port", str(_free_port()), "--launch-timeout", str(ATTACH), "--error-exitcode", str(FOUND),
            # By default it leaves out all records but the first 100, and all of a path but the file's name.
            "--print-limit", "0", "--strip-paths", "no", "--show-backtrace", "device",
            # Whoever makes the launch checks every call; torch makes some that it lets fail.
            "--report-api-errors", "no", *(("--padding", str(PADDING)) if tool == "memcheck" else ()), *program,
        ]  # fmt: skip
        started = time.monotonic()
        status = None
        with printed.open("wb") as file:
            if not self._stopped:
                status = self._wait(command, file, folder, timeout, os.environ if environment is None else environment)
        seconds = time.monotonic() - started
        saved = xml.read_bytes() if xml.exists() else b""
        logged = log.exists()
        said = (log if logged else printed).read_text(encoding="utf-8", errors="replace")
        return Output(tool, saved, said, status, seconds, logged)

    def _wait(
        self, command: list[str], printed: IO[bytes], folder: Path, timeout: float, environment: Mapping[str, str]
    ) -> int | None:
        """The exit status of a command; None where its time was up."""
        process = subprocess.Popen(  # noqa: S603 - the tool, on a program of kvcheck's
            command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True,
            env=environment, cwd=folder,
        )  # fmt: skip
        self._running.add(process.pid)
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            # Whatever is left of it, and of the program: also where Ctrl-C ends the wait.
            _kill(process.pid)
            process.wait()
            self._running.discard(process.pid)


def find() -> Sanitizer | None:
    """The compute-sanitizer of PATH, or of a CUDA toolkit, that says its version; None where there is none."""
    for path in _places():
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
            found = re.search(r"^Version ([\d.]+)", said.stdout, re.MULTILINE)
            if said.returncode == 0 and found:
                return Sanitizer(path, found[1])
    return None


def _places() -> list[str]:
    """Where it may be, the likeliest first."""
    roots = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    roots += [Path("/usr/local/cuda"), *sorted(Path("/usr/local").glob("cuda-*"), reverse=True)]
    packages = Path(sys.prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    roots += sorted((packages / "nvidia").glob("*"))
    found = [shutil.which(NAME)]
    found += [shutil.which(str(root / folder / NAME)) for root in roots for folder in ("bin", NAME, "")]
    return list(dict.fromkeys(path for path in found if path))


def _free_port() -> int:
    """A port that nobody listens at: every run at a time needs one of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
