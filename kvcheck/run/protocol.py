"""What the run and its nursery say to each other: JSON lines over pipes; case results lie in files.

What a nursery says begins with its mark: a target that writes into whatever file is open is not taken for it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

import msgspec

from kvcheck.contract import Accepts, Contract, Form, LoadContract
from kvcheck.schema import Case, Execution

#: The environment variable that marks a nursery and whatever comes of it.
MARK = "KVCHECK_NURSERY"

EMISSION = "emission.msgpack"
SCENE = "scene.msgpack"
"""The emission before any launch: what a case would show is known even where its kernel ends the process."""
FAILURE = "failure.msgpack"
SHADOW = "shadow.msgpack"
RECORDING = "recording.msgpack"
JOB = "job.json"
STAGE = "stage.txt"
PLACING, PREPARING, WRITING = "placing the case", "preparing launch", "writing the emission"
"""The stages of a case that are kvcheck's own work; the others are launches, and the capture of one."""
CAPTURING = "capture in a graph"
SENDER = "sender"
"""An empty file: the signal that ended the child came from another process."""
UNWRITTEN = "unwritten"
"""An empty file, for which a full disk mostly has room: kvcheck could not write what a child had to leave."""
STDOUT = "stdout.txt"
STDERR = "stderr.txt"


class TargetInfo(msgspec.Struct, frozen=True):
    """What a nursery says of a target that it has loaded."""

    name: str
    kind: Literal["store", "load"]
    contract: Contract | LoadContract
    accepts: Accepts
    form: Form
    refuses: tuple[str, ...]
    declares: str | None
    kernels_sha256: str
    path: str | None
    execution: Execution
    triton: bool = False
    native_arch: str = ""
    """This GPU's own arch; empty without one."""
    version: str | None = None
    """The version of the engine or plug-in that the kernel is part of."""
    missing: str | None = None
    """Why the target's engine cannot be imported: its cases are unsupported."""
    engine_files: dict[str, str] = {}
    """The sha256 of the engine's imported files, by their modules' names."""


class Hello(msgspec.Struct, frozen=True):
    """A nursery is ready, or says in one line why not."""

    targets: tuple[TargetInfo, ...] = ()
    cuda: bool = False
    arch: str = ""
    environment: dict[str, str | int | float | bool | None] = {}
    threads: int = 1
    error: str | None = None
    of_target: bool = False
    """Whether the error is the target's, so that another may do."""
    missing: str | None = None
    """Why a target's file cannot be imported: it declares nothing that cases could be placed for."""
    device: str = ""
    """The GPU's name and unique id; empty without one."""
    fresh: str | None = None
    """Why the nursery must not fork, so that each case gets a fresh interpreter."""
    doubt: str | None = None
    """Why Triton's interpreter does not stand for the arch here: what it interprets is inconclusive."""


class Job(msgspec.Struct, frozen=True):
    """A case to run in a child of its own. `reference` runs kvcheck's host store instead of the target."""

    number: int
    target: str
    case: Case
    folder: str
    timeout: float
    reference: bool = False
    witness: Literal["", "shadow", "record"] = ""
    """What watches the launches, beside the judge."""
    fenced: tuple[int, ...] | None = None
    """In a layout with fences: the allocations that have one. All, where it is None."""
    then: tuple[Job, ...] = ()
    """Jobs for the same process, once this one has left an emission. The timeout of this one is for all."""


#: The exit status of a child that could not set itself up.
UNSET = 70


class Ended(msgspec.Struct, frozen=True):
    """How a child ended: an exit status or a signal, or killed at its time limit."""

    number: int
    exit: int | None
    signal: int | None
    seconds: float
    timed_out: bool
    limit: str = ""
    """The other limit at which it was killed, in a few words."""
    outside: bool = False
    """Whether somebody else may have ended it, or stopped it until its time was over."""
    unstarted: str = ""
    """Why there was no child: the machine has no process to give."""


class Failure(msgspec.Struct, frozen=True):
    """Why a child has no emission: the target raised, or met what kvcheck cannot stand in for."""

    kind: Literal["refused", "crash", "inconclusive"]
    error: str
    """A traceback, or a refusal's sentence."""
    summary: str
    """One line."""
    compiler: str | None = None
    """What the compiler said, where the kernel does not compile."""


@dataclass(frozen=True)
class Answers:
    """The pipe on which a nursery answers, and its mark, taken before a target is loaded."""

    file: int
    mark: str

    def say(self, message: Hello | Ended) -> None:
        """Write a message, a line."""
        data = self.mark.encode() + msgspec.json.encode(message) + b"\n"
        while data:
            data = data[os.write(self.file, data) :]


def spoken(line: bytes, mark: str) -> bytes | None:
    """What a nursery said in a line, whatever stands before it; None where it is somebody else's."""
    _, found, said = line.partition(mark.encode())
    return said if found else None
