"""A store that is right, but for one number of tokens for each way in which a kernel's process can go wrong."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import right  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

import kvcheck
from kvcheck import Cache

launches = 0


class Unsupported(Exception):  # noqa: N818 - as engines name theirs
    """What this target raises for an input it does not take."""


class UnsupportedHere(Unsupported):
    """A subclass, which is a refusal too."""


def _raises() -> NoReturn:
    raise RuntimeError("boom\nand a second line")


def _raises_a_listed_refusal() -> NoReturn:
    raise UnsupportedHere("not these")


def _refuses() -> NoReturn:
    raise kvcheck.Refused("k is not to my liking")


def _refuses_in_launch_2() -> None:
    if launches == 2:
        _refuses()


def _typo() -> None:
    undefined_name()  # type: ignore[name-defined]  # noqa: F821 - the point


def _segfaults() -> None:
    ctypes.string_at(0)


def _note_id() -> None:
    """Write this process's id where the test looks for it."""
    with Path(os.environ["KVCHECK_TEST_PIDS"]).open("a", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")


def _hangs() -> None:
    _note_id()
    time.sleep(1000)


def _hangs_deaf() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass


def _prints_answers() -> None:
    for number in range(64):
        line = f'{{"number":{number},"exit":0,"signal":null,"seconds":0.0,"timed_out":false}}\n'.encode()
        for file in (0, 1, 2, *range(3, 21)):
            with contextlib.suppress(OSError):
                os.write(file, line)
    print("\x1b[2J\x00garbage", "\ud800".encode("utf-8", "surrogatepass"))  # noqa: T201 - the point


def _forks(*, escapes: bool) -> None:
    """Leave a process behind, in this session or in one of its own, and note its id where the test looks."""
    noted, note = os.pipe()
    pid = os.fork()
    if pid == 0:
        if escapes:
            os.setsid()
        _note_id()
        os.close(note)
        time.sleep(1000)
        os._exit(0)
    # The case may end only when the id is there: what is killed before it has noted its id tests nothing.
    os.close(note)
    os.read(noted, 1)
    os.close(noted)


def _closes_all() -> None:
    os.closerange(0, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 16))


WAYS: dict[int, Callable[[], object]] = {
    2: _raises,
    3: lambda: sys.exit(0),
    4: lambda: os._exit(0),
    5: lambda: os._exit(3),
    6: _segfaults,
    7: lambda: os.kill(os.getpid(), signal.SIGKILL),
    8: _typo,
    9: _hangs,
    10: _hangs_deaf,
    11: lambda: os.kill(os.getpid(), signal.SIGSTOP),
    12: _prints_answers,
    13: lambda: _forks(escapes=False),
    14: lambda: _forks(escapes=True),
    15: _closes_all,
    16: os.abort,
    17: lambda: os.kill(0, signal.SIGKILL),
    18: _refuses,
    19: _raises_a_listed_refusal,
    20: _refuses_in_launch_2,
}


def _raise_interrupt() -> NoReturn:
    raise KeyboardInterrupt


def _fills_its_output() -> NoReturn:
    line = b"x" * (1 << 20)
    while True:
        os.write(1, line)
        time.sleep(0.001)


def _corrupts_its_heap() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    block = libc.malloc(1 << 12)
    ctypes.memset(block - 8, 0xFF, 8)
    libc.free(ctypes.c_void_p(block))


def _handles_signals() -> None:
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)


WAYS |= {21: _raise_interrupt, 25: _fills_its_output, 26: _corrupts_its_heap, 27: _handles_signals}


@kvcheck.store_target("misbehaving", contract=right.CONTRACT, refuses=(Unsupported,))
def misbehaving(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Go wrong in the way of this number of tokens, if it has one, before anything is stored; else store."""
    global launches  # noqa: PLW0603 - counts the launches of this process
    launches += 1
    WAYS.get(len(k), int)()
    right.store(k, v, slots, cache)


@kvcheck.store_target("late", contract=right.CONTRACT)
def late(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store, and go wrong only then: a whole cache is no pass where its process was lost."""
    right.store(k, v, slots, cache)
    WAYS.get(len(k), int)()
