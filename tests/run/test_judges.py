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
            if (judged := judges.take(pipes[ready])) is not None:
                found[judged[0].folder] = judged[1]
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


def _kill(judges: Judges, folder: Path) -> None:
    """SIGKILL the judge of a case."""
    victim = next(one for one in judges._workers if one.question is not None and one.question.path == folder)
    os.kill(victim.process.pid, signal.SIGKILL)


def test_the_case_of_a_judge_that_dies_is_judged_by_another(tmp_path: Path) -> None:
    """Somebody has killed it: what the case left is still there."""
    with Judges(1) as judges:
        for number in range(3):
            judges.ask(_question(tmp_path, number))
        _kill(judges, tmp_path / "0")
        found = _gathered(judges)
    assert len(found) == 3
    assert {result.outcome for result in found.values()} == {"crash"}


def test_a_case_that_two_judges_die_of_is_inconclusive_and_the_next_is_judged(tmp_path: Path) -> None:
    """It was not seen to be right, so it is no pass; another process takes the rest."""
    with Judges(1) as judges:
        for number in range(3):
            judges.ask(_question(tmp_path, number))
        _kill(judges, tmp_path / "0")
        wait([one.fileno() for one in judges.answers()])
        assert judges.take(judges.answers()[0]) is None
        while (question := judges._workers[0].question) is None or question.path != tmp_path / "0":
            # Stopped before it is given the case again: it must not have judged that by the time it is killed.
            pipe, pid = judges.answers()[0], judges._workers[0].process.pid
            wait([pipe.fileno()])
            os.kill(pid, signal.SIGSTOP)
            judges.take(pipe)
            if (question := judges._workers[0].question) is None or question.path != tmp_path / "0":
                os.kill(pid, signal.SIGCONT)
        _kill(judges, tmp_path / "0")
        found = _gathered(judges)
    assert found[str(tmp_path / "0")].outcome == "inconclusive"
    assert "the process that judges this case ended" in found[str(tmp_path / "0")].reason


def test_a_judge_that_says_nothing_for_too_long_has_no_second(tmp_path: Path) -> None:
    """It may hang in that very case."""
    with Judges(1) as judges:
        os.kill(judges._workers[0].process.pid, signal.SIGSTOP)
        judges.ask(_question(tmp_path, 0))
        judges.end_silent(0.0)
        assert [result.outcome for result in _gathered(judges).values()] == ["inconclusive"]


def test_a_result_that_cannot_be_kept_is_inconclusive_and_its_judge_goes_on(tmp_path: Path) -> None:
    """A kernel may have removed the folder, or the disk be full: the reason is said, and nothing printed."""
    with Judges(1) as judges:
        for number in range(2):
            judges.ask(_question(tmp_path, number))
        (tmp_path / "0").rmdir()
        process = judges._workers[0].process
        found = _gathered(judges)
        assert judges._workers[0].process is process
    outcomes = [found[str(tmp_path / str(number))].outcome for number in range(2)]
    assert outcomes == ["inconclusive", "crash"]
    reason = found[str(tmp_path / "0")].reason
    assert reason == "this case was judged, but result.msgpack could not be written: No such file or directory"


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
