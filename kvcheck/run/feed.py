"""The loop of a run: keeps nurseries and judges busy, and finds the case that killed a nursery."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import IO, Protocol, cast

from kvcheck.errors import KvcheckError
from kvcheck.run.judge_worker import Question, answer
from kvcheck.run.judges import Judges
from kvcheck.run.order import Order
from kvcheck.run.pool import LOOK, Nursery, NurseryLostError
from kvcheck.run.protocol import Ended, Job
from kvcheck.schema import CaseResult

#: Jobs handed to a nursery ahead of those that run, so that a child never waits for this loop.
AHEAD = 4

#: Seconds beyond the limit of a case's process after which a nursery that says nothing is taken for lost, and those
#: that a judge has.
GRACE = 30.0
JUDGE_LIMIT = 300.0

#: Seconds that a run which is stopped waits for cases that have ended to be judged.
PATIENCE = 3.0


class Desk(Protocol):
    """What the loop asks of the run that it serves."""

    def job(self, number: int) -> Job:
        """A case's job, with a folder that is empty."""

    def question(self, ended: Ended, job: Job) -> Question:
        """What a judge is asked of a child that has ended."""

    def judged(self, number: int, result: CaseResult, nursery: Nursery) -> None:
        """A case is done."""

    def lost(self, number: int, nursery: Nursery) -> None:
        """A case has killed its nursery, running alone there."""


@dataclass
class _Lane:
    nursery: Nursery
    flying: dict[int, Job] = field(default_factory=dict)
    suspects: list[int] = field(default_factory=list)
    """Cases that were under way when a nursery died: each runs alone, so that it is known which one did it."""
    tried: int | None = None
    """The suspect that runs now."""
    heard: float = 0.0
    """When the nursery last said something, or was given a case while it had none."""

    def silent(self, now: float) -> bool:
        """Whether some case's time is long over and the nursery has not said so: it is stopped, or hangs."""
        most = max((job.timeout for job in self.flying.values()), default=0.0)
        return bool(self.flying) and now > self.heard + GRACE + self.nursery.imports + most


class Feed:
    """Cases shared among nurseries from one queue."""

    def __init__(self, nurseries: Sequence[Nursery], judges: Judges | None, order: Order, desk: Desk) -> None:
        """Without judges, cases are judged in this process."""
        self._lanes = [_Lane(nursery) for nursery in nurseries]
        self._judges, self._order, self._desk = judges, order, desk
        self._asked: dict[str, tuple[int, Nursery]] = {}
        self._again: set[int] = set()

    def run(self) -> None:
        """Run and judge every case. Raises KvcheckError where a nursery that died cannot be started again.

        That and Ctrl-C are raised once the judges have said what they had been asked, or `PATIENCE` is over.
        """
        try:
            self._run()
        except (KeyboardInterrupt, KvcheckError):
            self._last_answers(time.monotonic() + PATIENCE)
            if self._judges is not None:
                self._judges.forget()
            raise

    def _last_answers(self, until: float) -> None:
        while self._judges is not None and self._asked and (left := until - time.monotonic()) > 0:
            judges = {pipe.fileno(): pipe for pipe in self._judges.answers()}
            for ready in cast("list[int]", wait(list(judges), left)):
                self._judged(judges[ready])

    def _run(self) -> None:
        while True:
            for lane in self._lanes:
                self._guarded(lane, self._fill)
            if not self._asked and not self._order and not any(lane.flying or lane.suspects for lane in self._lanes):
                return
            lanes = {lane.nursery.answers().fileno(): lane for lane in self._lanes if lane.flying}
            judges = {pipe.fileno(): pipe for pipe in (self._judges.answers() if self._judges is not None else ())}
            for ready in cast("list[int]", wait([*lanes, *judges], LOOK)):
                if ready in judges:
                    self._judged(judges[ready])
                else:
                    lanes[ready].heard = time.monotonic()
                    self._guarded(lanes[ready], self._take)
            for lane in self._lanes:
                lane.nursery.wake()
                if lane.silent(time.monotonic()):
                    self._guarded(lane, _lost)
            if self._judges is not None:
                self._judges.end_silent(JUDGE_LIMIT)

    def _fill(self, lane: _Lane) -> None:
        """Give a nursery what it has room for."""
        if lane.tried is not None:
            return
        if lane.suspects:
            if not lane.flying:
                lane.tried = lane.suspects.pop(0)
                self._submit(lane, lane.tried)
            return
        while len(lane.flying) < lane.nursery.jobs + AHEAD and not (self._judges is not None and self._judges.full):
            number = self._order.pop()
            if number is None:
                return
            self._submit(lane, number)

    def _submit(self, lane: _Lane, number: int) -> None:
        if not lane.flying:
            lane.heard = time.monotonic()
        lane.flying[number] = self._desk.job(number)
        lane.nursery.submit(lane.flying[number])

    def _take(self, lane: _Lane) -> None:
        """Have judged what a nursery's children have left."""
        for ended in lane.nursery.take():
            if ended.outside and ended.number not in self._again:
                self._again.add(ended.number)
                self._submit(lane, ended.number)
                continue
            job = lane.flying.pop(ended.number)
            if lane.tried == ended.number:
                lane.tried = None
            self._order.ended(ended.number)
            question = self._desk.question(ended, job)
            if self._judges is None:
                self._desk.judged(ended.number, answer(question), lane.nursery)
            else:
                self._asked[question.folder] = ended.number, lane.nursery
                self._judges.ask(question)

    def _judged(self, pipe: IO[bytes]) -> None:
        assert self._judges is not None
        judged = self._judges.take(pipe)
        if judged is None:
            return
        question, result = judged
        number, nursery = self._asked.pop(question.folder)
        self._desk.judged(number, result, nursery)

    def _guarded(self, lane: _Lane, work: Callable[[_Lane], None]) -> None:
        """Do something with a nursery. Where it has died: alone, the case under way did it; else all are suspects."""
        try:
            work(lane)
        except NurseryLostError:
            lane.nursery.restart()
            if lane.tried is not None:
                self._order.ended(lane.tried)
                self._desk.lost(lane.tried, lane.nursery)
                lane.flying.pop(lane.tried)
                lane.tried = None
            lane.suspects += sorted(lane.flying)
            lane.flying.clear()


def _lost(lane: _Lane) -> None:
    raise NurseryLostError(lane.nursery.label)
