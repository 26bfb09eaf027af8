"""The processes that judge: right results, none lost where one of them dies."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO, cast

from kvcheck.contract import Accepts, Computed, Contract, Form
from kvcheck.run.judge_worker import Question, answer
from kvcheck.run.judges import BACKLOG, Judges
from kvcheck.run.protocol import Ended, TargetInfo
from kvcheck.schema import Case, CaseResult

INFO = TargetInfo(
    "made-up", "store", Contract(scale=Computed("token_head")), Accepts(), Form("slots"), (), None, "00", None, "host"
)


def _question(folder: Path, number: int) -> Question:
    (folder / str(number)).mkdir()
    ended = Ended(number, None, 11, 0.5, timed_out=False)
    return Question(Case(seed=number), ended, str(folder / str(number)), INFO, expect_declared=False)


def _gathered(judges: Judges) -> dict[str, CaseResult]:
    found = {}
    while judges.busy:
        pipes = {pipe.fileno(): pipe for pipe in judges.answers()}
        for ready in cast("list[int]", wait(list(pipes))):
            question, result = judges.take(pipes[ready])
            found[question.folder] = result
    return found


def test_they_answer_as_this_process_would(tmp_path: Path) -> None:
    """Every question once, by two processes."""
    questions = [_question(tmp_path, number) for number in range(7)]
    with Judges(2) as judges:
        for question in questions:
            judges.ask(question)
        assert len(judges.answers()) == 2
        found = _gathered(judges)
    assert found == {question.folder: answer(question) for question in questions}
    assert {result.outcome for result in found.values()} == {"crash"}


def test_the_case_of_a_judge_that_dies_is_inconclusive_and_the_next_is_judged(tmp_path: Path) -> None:
    """It was not seen to be right, so it is no pass; another process takes the rest."""
    with Judges(1) as judges:
        for number in range(3):
            judges.ask(_question(tmp_path, number))
        os.kill(judges._workers[0].process.pid, signal.SIGKILL)
        found = _gathered(judges)
    outcomes = [found[str(tmp_path / str(number))].outcome for number in range(3)]
    assert outcomes == ["inconclusive", "crash", "crash"]
    assert "the process that judges this case ended" in found[str(tmp_path / "0")].reason


def test_it_says_when_no_more_should_be_made(tmp_path: Path) -> None:
    """What waits is bounded: a kernel may be faster than its judge."""
    with Judges(1) as judges:
        for number in range(BACKLOG + 1):
            assert not judges.full
            judges.ask(_question(tmp_path, number))
        assert judges.full


def test_they_end_with_the_block(tmp_path: Path) -> None:
    """Also one that is at work."""
    with Judges(1) as judges:
        judges.ask(_question(tmp_path, 0))
        process = judges._workers[0].process
    assert process.returncode == -signal.SIGKILL
    assert cast("IO[bytes]", process.stdout).closed
