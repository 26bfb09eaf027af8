"""Processes that judge and diagnose what children have left, while other children run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO

import msgspec

from kvcheck.errors import ReportError
from kvcheck.run.judge_worker import DONE, RESULT, Question
from kvcheck.run.outside import Waker
from kvcheck.run.result import not_run
from kvcheck.schema import CaseResult

#: Emissions that may lie waiting for a judge: a kernel is no faster than what it stored can be looked at.
BACKLOG = 64


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    question: Question | None = None
    since: float = 0.0
    """When it was asked."""
    late: bool = False
    """Whether it was killed for its silence."""

    def __post_init__(self) -> None:
        """Watch it."""
        self.waker = Waker(self.process.pid)

    def answers(self) -> IO[bytes]:
        """The pipe on which it says that a result lies in its file."""
        assert self.process.stdout is not None
        return self.process.stdout


class Judges:
    """At most so many processes: one from the start, each other when a result has to wait. A context manager."""

    def __init__(self, most: int) -> None:
        """Start none yet, as the block does."""
        self._most = most
        self._workers: list[_Worker] = []
        self._waiting: deque[Question] = deque()
        self._again: set[str] = set()
        """The folders of cases whose judge has died once."""

    def __enter__(self) -> Judges:  # noqa: PYI034 - typing.Self came with Python 3.11
        self._more()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            _end(worker)
        self._workers.clear()

    @property
    def busy(self) -> bool:
        """Whether anything is still to be judged."""
        return bool(self._waiting) or any(worker.question is not None for worker in self._workers)

    @property
    def full(self) -> bool:
        """Whether so much waits that no more should be made."""
        return len(self._waiting) >= BACKLOG

    def answers(self) -> Sequence[IO[bytes]]:
        """The pipes on which busy judges answer."""
        return [worker.answers() for worker in self._workers if worker.question is not None]

    def ask(self, question: Question) -> None:
        """Have a case judged."""
        self._waiting.append(question)
        self._hand_out()

    def forget(self) -> None:
        """Judge no more of what was asked: nobody waits for it."""
        self._waiting.clear()
        for worker in [worker for worker in self._workers if worker.question is not None]:
            self._workers.remove(worker)
            _end(worker)

    def end_silent(self, seconds: float) -> None:
        """Kill judges that have had a question for longer: their pipes end, and say so. Those stopped are continued."""
        for worker in self._workers:
            worker.waker.look()
            if worker.question is not None and time.monotonic() > worker.since + seconds:
                worker.late = True
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.process.pid, signal.SIGKILL)

    def take(self, pipe: IO[bytes]) -> tuple[Question, CaseResult] | None:
        """What the judge behind a pipe that is ready has found; None where it died and another has been asked.

        A case of which two have died, or one has said nothing for too long, is inconclusive.
        """
        worker = next(one for one in self._workers if one.answers() is pipe)
        question = worker.question
        assert question is not None
        worker.question = None
        said = pipe.readline().decode()
        if said.endswith("\n") and said.strip() != DONE:
            self._hand_out()
            return question, not_run(question.case, "inconclusive", f"this case was judged, but {said.strip()}")
        if said.endswith("\n"):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                result = msgspec.msgpack.decode((question.path / RESULT).read_bytes(), type=CaseResult)
                self._hand_out()
                return question, result
        self._workers.remove(worker)
        _end(worker)
        if not worker.late and question.folder not in self._again:
            self._again.add(question.folder)
            self.ask(question)
            return None
        self._hand_out()
        return question, not_run(question.case, "inconclusive", "the process that judges this case ended before it had")

    def _more(self) -> _Worker | None:
        """One more process; None where the machine has none to give and another is there."""
        try:
            worker = _Worker(_start())
        except OSError as error:
            if self._workers:
                return None
            raise ReportError(
                f"the process that judges cannot be started: {error.strerror or error}; the cases before are kept for "
                "--resume"
            ) from error
        self._workers.append(worker)
        return worker

    def _hand_out(self) -> None:
        while self._waiting:
            worker = next((one for one in self._workers if one.question is None), None)
            if worker is None and len(self._workers) < self._most:
                worker = self._more()
            if worker is None:
                return
            worker.question, worker.since = self._waiting.popleft(), time.monotonic()
            assert worker.process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it died while it was idle: the answer's end says so
                worker.process.stdin.write(msgspec.json.encode(worker.question) + b"\n")
                worker.process.stdin.flush()


def _start() -> subprocess.Popen[bytes]:
    # A session of its own: a Ctrl-C in the terminal is the run's to handle. It ends when its standard input does.
    return subprocess.Popen(
        [sys.executable, "-m", "kvcheck.run.judge_worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip


def _end(worker: _Worker) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.wait()
    for pipe in (worker.process.stdin, worker.process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
