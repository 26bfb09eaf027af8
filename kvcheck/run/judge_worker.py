"""The process of one judge: questions come as JSON lines, results go into files, a line says that one lies there.

Started as `python -m kvcheck.run.judge_worker`. It imports no torch, and holds nothing from one case to the next.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from kvcheck.report.plain import one_line
from kvcheck.run.files import UnwritableError, write_atomic
from kvcheck.run.protocol import Ended, TargetInfo
from kvcheck.run.result import result_of
from kvcheck.run.shield import end_by_itself
from kvcheck.schema import Case, CaseResult

#: What a judge says when the result lies there; else it says why it does not.
DONE = "done"
#: The result's file, beside the emission.
RESULT = "result.msgpack"


class Question(msgspec.Struct, frozen=True):
    """A case whose child has ended, and where its files lie."""

    case: Case
    ended: Ended
    folder: str
    info: TargetInfo
    expect_declared: bool

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.folder)


def answer(asked: Question) -> CaseResult:
    """The case's result."""
    return result_of(asked.case, asked.ended, asked.path, asked.info, expect_declared=asked.expect_declared)


def main() -> int:
    """Judge until standard input ends, which says that the run is over or gone."""
    answers = os.dup(1)
    os.dup2(2, 1)
    end_by_itself()
    for line in sys.stdin.buffer:
        asked = msgspec.json.decode(line, type=Question)
        said = DONE
        try:
            write_atomic(asked.path / RESULT, msgspec.msgpack.encode(answer(asked)))
        except UnwritableError as error:
            said = one_line(str(error))
        try:
            os.write(answers, f"{said}\n".encode())
        except BrokenPipeError:  # the run was killed: nobody asks any more
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
