"""The process between a run and one that calls a target."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from kvcheck.run.limits import Limits
from kvcheck.run.outside import stopped
from kvcheck.run.shield import behind, shielded

from .command import environment
from .processes import is_running, wait_for

SCRIPT = """
import os, sys
from kvcheck.run.shield import shielded
shielded()
held = bytearray(os.urandom(1 << 20)) * 64
print(os.getpid(), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def pair() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A shield, and the process behind it, which holds 64 MiB and waits."""
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as shield:
        assert shield.stdout is not None
        yield shield, int(shield.stdout.readline())
        shield.kill()


def test_killed_it_takes_along_what_is_behind_it(pair: tuple[subprocess.Popen[str], int]) -> None:
    """As a target does that kills its parent."""
    shield, inner = pair
    os.kill(shield.pid, signal.SIGKILL)
    assert shield.wait(timeout=60) == -signal.SIGKILL
    wait_for(lambda: not is_running(inner))


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_it_ends_as_what_is_behind_it(number: int, pair: tuple[subprocess.Popen[str], int]) -> None:
    """Whoever waits for it learns the signal."""
    shield, inner = pair
    os.kill(inner, number)
    assert shield.wait(timeout=60) == -number


def test_it_ends_with_the_status_of_what_is_behind_it() -> None:
    """A status that is no signal's."""
    script = "import sys\nfrom kvcheck.run.shield import shielded\nshielded()\nsys.exit(7)"
    assert subprocess.run([sys.executable, "-c", script], env=environment(), check=False).returncode == 7


def test_what_is_behind_it_is_found_and_watched(pair: tuple[subprocess.Popen[str], int]) -> None:
    """Its memory, and whether it is stopped: the shield itself is small, and waits."""
    shield, inner = pair
    assert behind(shield.pid) == inner
    limits = Limits(48 << 20)
    assert limits.exceeded(shield.pid, "") is None
    assert limits.exceeded(behind(shield.pid), "") == "at its limit of 48 MiB of memory"
    os.kill(inner, signal.SIGSTOP)
    wait_for(lambda: stopped(behind(shield.pid)))
    assert not stopped(shield.pid)
    os.kill(inner, signal.SIGCONT)


def test_without_anything_behind_it_is_itself() -> None:
    """And one that is gone."""
    with subprocess.Popen(["sleep", "60"]) as process:  # noqa: S607 - any process
        assert behind(process.pid) == process.pid
        process.kill()
    assert behind(process.pid) == process.pid


def test_a_shield_that_is_gone_before_its_end_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is behind it does not begin."""
    ended: list[int] = []

    def end(status: int) -> None:
        ended.append(status)

    monkeypatch.setattr(os, "fork", lambda: 0)
    monkeypatch.setattr("kvcheck.run.shield.ctypes.CDLL", lambda _: SimpleNamespace(prctl=lambda *_: None))
    monkeypatch.setattr(os, "_exit", end)
    shielded()
    assert ended == [1]
