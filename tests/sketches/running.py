"""One case of a target, in this process, and what the judge says of it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import torch

from kvcheck.api import Target
from kvcheck.judge.judge import judge
from kvcheck.run.case import run_case
from kvcheck.run.protocol import EMISSION, FAILURE, Failure, Job
from kvcheck.schema import Case, Emission, Verdict

CPU = torch.device("cpu")


def run(target: Target, case: Case, *, reference: bool = False) -> Emission | Failure:
    """The emission that a case's process would leave, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        run_case(Job(0, target.name, case, folder, 60.0, reference), target, CPU)
        failure = Path(folder) / FAILURE
        if failure.exists():
            return msgspec.msgpack.decode(failure.read_bytes(), type=Failure)
        return msgspec.msgpack.decode((Path(folder) / EMISSION).read_bytes(), type=Emission)


def judged(target: Target, case: Case, *, reference: bool = False) -> Verdict:
    """The verdict on a case that must leave an emission."""
    emission = run(target, case, reference=reference)
    assert isinstance(emission, Emission), emission.error
    return judge(emission)
