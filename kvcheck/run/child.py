"""What the process of one case does, once it has the target: its own output files, limits, and the case itself."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import sys
from pathlib import Path

from kvcheck.api import Target
from kvcheck.run.outside import note_sender
from kvcheck.run.protocol import EMISSION, STDERR, STDOUT, Job

#: The part of a GPU's memory that all children together may take through torch: contexts and code need the rest.
SHARE = 0.9


def own_files(job: Job) -> None:
    """Redirect standard output and error into the job's folder, and leave no other file open but these."""
    folder = Path(job.folder)
    for stream, name in ((1, STDOUT), (2, STDERR)):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(file, stream)
        os.close(file)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.closerange(3, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 4096))


def run_alone(job: Job, target: Target, *, cuda: bool, jobs: int) -> None:
    """Run a job's case in this process, which is no other job's, and exit with status 0 when its files are written.

    `jobs` processes share the GPU: each may take so much of its memory that the others still find theirs. Never
    returns.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(file=2)
    note_sender(Path(job.folder))
    if job.case.layout == "exact":
        # Each tensor gets a cudaMalloc of its own size. torch asks for this when it first allocates, which is here.
        os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    import torch  # noqa: PLC0415 - loaded long ago; the name is what is needed

    from kvcheck.run.case import run_case  # noqa: PLC0415

    device = torch.device("cuda", 0) if cuda else torch.device("cpu")
    if cuda:
        with contextlib.suppress(Exception):  # a broken driver is the case's own to report
            torch.cuda.set_per_process_memory_fraction(SHARE / jobs, device)
    for part in (job, *job.then):
        run_case(part, target, device)
        if not (Path(part.folder) / EMISSION).exists():
            break  # what ran behind it would suffer from what it has done
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)
