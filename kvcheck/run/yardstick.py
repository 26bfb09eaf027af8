"""kvcheck's own host store, sent through a case's placement before anything is said of a target."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

from kvcheck.run.feed import GRACE
from kvcheck.run.pool import Nursery, NurseryLostError
from kvcheck.run.protocol import Ended, Job, TargetInfo
from kvcheck.run.result import result_of


class Yardstick:
    """The host store's case. It runs while whoever started it does other things, and tells when it is asked."""

    def __init__(self, nursery: Nursery, info: TargetInfo, job: Callable[[], Job]) -> None:
        """Start it: `job` makes one whose folder is empty, every time it is called."""
        self._nursery, self._info, self._new = nursery, info, job
        self._job = self._submitted()

    def mistake(self) -> str | None:
        """Why nothing can be judged here, or None. Waits for the case to end."""
        ended = self._ended()
        if ended is None:
            return "the process that runs the cases died twice while kvcheck checked itself"
        folder = Path(self._job.folder)
        result = result_of(self._job.case, ended, folder, self._info, expect_declared=False)
        shutil.rmtree(folder, ignore_errors=True)
        if result.outcome in ("pass", "unsupported"):
            return None
        said = "kvcheck's own reference store fails on this placement, so nothing is said of the target"
        return f"{said}: {result.reason}"

    def _submitted(self) -> Job:
        """A new job, which the nursery has, unless it is gone: then it will not answer either."""
        job = self._new()
        with contextlib.suppress(NurseryLostError):
            self._nursery.submit(job)
        return job

    def _ended(self) -> Ended | None:
        """How it has ended. As any case it runs once more where somebody else may have ended it, or its nursery."""
        ended: Ended | None = None
        for again in (False, True):
            if again:
                self._job = self._submitted()
            try:
                ended = self._nursery.next_ended(self._job.timeout + self._nursery.imports + GRACE)
            except NurseryLostError:
                self._nursery.restart()
                continue
            if not ended.outside:
                break
        return ended
