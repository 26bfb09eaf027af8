"""Who ran into a fence: the address that killed a case's process, told as a tensor, a side and a distance.

On the CPU the signal says the address. CUDA says that an access was illegal, and not which: there one process can tell
only what was fenced.
"""

from __future__ import annotations

import os
import platform
import signal
from pathlib import Path
from typing import NamedTuple

import msgspec

from kvcheck.memory.fault_signals import address_of, made_by_an_instruction, on_signal, wrote
from kvcheck.memory.fences import Fenced, Side

#: Files in a case's folder.
TABLE = "fences.msgpack"
FAULT = "fault.txt"


class FencedTensors(msgspec.Struct, frozen=True):
    """The tensors that lie between two fences, and the bytes from the first to the one behind the last of them."""

    names: tuple[str, ...]
    begin: int
    end: int
    low: int
    high: int

    @property
    def called(self) -> str:
        """The tensors' names, for people."""
        return " and ".join(self.names)


class Table(msgspec.Struct, frozen=True):
    """All fences of a case."""

    layout: str
    side: Side
    tensors: tuple[FencedTensors, ...]


def fenced_tensors(names: tuple[str, ...], fenced: Fenced, start: int, stop: int) -> FencedTensors:
    """Tensors that lie in bytes `start` to `stop` of fenced memory."""
    return FencedTensors(names, fenced.address + start, fenced.address + stop, fenced.low, fenced.high)


def watch(folder: Path, table: Table) -> None:
    """Write a case's fences into its folder; when this process dies of one, the address too."""
    (folder / TABLE).write_bytes(msgspec.msgpack.encode(table))
    file = os.open(folder / FAULT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    tells = platform.machine() == "x86_64"

    def note(info: int, context: int) -> None:
        if made_by_an_instruction(info):
            how = ("is written" if wrote(context) else "is read") if tells else "is overrun"
            os.write(file, f"{address_of(info)} {how}".encode())

    on_signal(signal.SIGSEGV, note)


class Overrun(NamedTuple):
    """An access that a fence stopped: of which tensors, how (`is read`, `is written`, `is overrun`), where, how far.

    `distance` is None where the address is not known.
    """

    tensors: tuple[str, ...]
    how: str
    side: Side
    distance: int | None

    @property
    def says(self) -> str:
        """The access, for people."""
        where = "past its end" if self.side == "end" else "before its beginning"
        far = "" if self.distance is None else f"{_distance(self.distance)} "
        return f"{' and '.join(self.tensors)} {self.how} {far}{where}, where nothing is mapped"


def overrun(folder: Path) -> Overrun | None:
    """Which tensor was overrun, at which side and how far, where one of a case's fences ended its process; or None."""
    table = _table(folder)
    if table is None:
        return None
    try:
        number, _, how = (folder / FAULT).read_text(encoding="ascii").partition(" ")
        address = int(number)
    except (OSError, ValueError):
        return None
    for found in table.tensors:
        if found.end <= address < found.high:
            return Overrun(found.names, how, "end", address - found.end + 1)
        if found.low <= address < found.begin:
            return Overrun(found.names, how, "begin", found.begin - address)
    return None


def fenced(folder: Path) -> str | None:
    """What was fenced in a case, where something was: all that can be told of an illegal access on CUDA."""
    table = _table(folder)
    if table is None:
        return None
    names = ", ".join(found.called for found in table.tensors)
    side = "end" if table.side == "end" else "begin"
    return f"CUDA does not say where; each of these {side}s at unmapped memory: {names}"


def _table(folder: Path) -> Table | None:
    try:
        return msgspec.msgpack.decode((folder / TABLE).read_bytes(), type=Table)
    except (OSError, msgspec.MsgspecError):
        return None


def _distance(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"
