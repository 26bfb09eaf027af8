"""Kill what a run is made of, again and again: its cases, its nurseries, its judges, and the run itself."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kvcheck.run.journal import NAME

from .command import start
from .processes import children, command_line, is_running

Who = Literal["case", "nursery", "judge", "run"]
Blow = tuple[Who, signal.Signals]

#: What happens in twelve blows. Of runs those that stop are left out: nobody but whoever stopped one continues it.
TWELVE: tuple[Blow, ...] = (
    ("case", signal.SIGKILL),
    ("case", signal.SIGKILL),
    ("case", signal.SIGSEGV),
    ("case", signal.SIGSEGV),
    ("case", signal.SIGSTOP),
    ("case", signal.SIGTERM),
    ("nursery", signal.SIGKILL),
    ("judge", signal.SIGKILL),
    ("nursery", signal.SIGSTOP),
    ("judge", signal.SIGSEGV),
    ("judge", signal.SIGSTOP),
    ("run", signal.SIGKILL),
)


@dataclass
class Chaos:
    """A run into `out` that is disturbed as it goes on; one that was killed is started again with `--resume`."""

    asked: tuple[object, ...]
    out: Path
    cwd: Path
    generator: random.Random
    dealt: Counter[Blow] = field(default_factory=Counter)
    """The blows that hit a process which was alive."""

    def disturb(self, kills: int, size: int) -> int:
        """Deal so many blows, spread over a run whose journal comes to `size` bytes; the exit status it ends with.

        Fails where the run is over before the last of them.
        """
        blows = [TWELVE[number % len(TWELVE)] for number in range(kills)]
        self.generator.shuffle(blows)
        process = self._start()
        for number, (who, how) in enumerate(blows):
            due = size * number // (kills * 4 // 3)
            while self._written() < due and process.poll() is None:
                time.sleep(0.01)
            while not self._deal(process, who, how):
                assert process.poll() is None, f"over after {number} of {kills} kills: {process.communicate()}"
                time.sleep(0.01)
            self.dealt[who, how] += 1
            if who == "run":
                process.communicate()
                process = self._start()
        with _ended(process):
            process.communicate(timeout=600)
        return process.returncode

    def _start(self) -> subprocess.Popen[str]:
        return start("matrix", *self.asked, "--device", "cpu", "--out", self.out, "--resume", cwd=self.cwd)

    def _written(self) -> int:
        return sum(path.stat().st_size for path in self.out.glob(f"*/*/{NAME}"))

    def _deal(self, process: subprocess.Popen[str], who: Who, how: signal.Signals) -> bool:
        """Send a signal to one of the run's processes. Whether there was one that lived."""
        living = [pid for pid in processes(process.pid, who) if is_running(pid)]
        if not living:
            return False
        try:
            os.kill(self.generator.choice(sorted(living)), how)
        except ProcessLookupError:
            return False
        return True


@contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()


def processes(run: int, who: Who) -> list[int]:
    """A run's processes of one kind. Cases lead a session: what else a nursery forks only looks at the machine."""
    if who == "run":
        return [run]
    if who == "judge":
        return [pid for pid in children(run) if "kvcheck.run.judge_worker" in command_line(pid)]
    nurseries = [pid for pid in children(run) if "kvcheck.run.nursery" in command_line(pid)]
    if who == "nursery":
        # One that has not said hello yet is no part of the run: it cannot be loaded, then.
        return [pid for pid in nurseries if _cases(pid)]
    return [pid for nursery in nurseries for pid in _cases(nursery)]


def _cases(nursery: int) -> list[int]:
    return [pid for pid in children(nursery) if _leads_a_session(pid)]


def _leads_a_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False
