"""What a child does for the first time, done once before the forks: modules imported late, caches filled."""

from __future__ import annotations

import gc

import torch

from kvcheck.kernels.store import store
from kvcheck.run.case import run_case
from kvcheck.run.holes import fill_holes
from kvcheck.run.huge_pages import join_pages
from kvcheck.run.protocol import Job
from kvcheck.run.scratch import scratch
from kvcheck.run.untouched import remember
from kvcheck.schema import Case

#: A case that is soon done and takes every step.
SMALL = Case(tokens=1, heads=1, head_dim=16)


def rehearse_interpreted() -> None:
    """Run a small case of kvcheck's own store in Triton's interpreter, in this process. What comes of it is no matter.

    On the CPU alone: a process that forks must never touch the GPU. The target under test is not called: a child must
    find it as the import left it.
    """
    with scratch() as folder:
        run_case(Job(-1, store.name, SMALL, str(folder), 60.0), store, torch.device("cpu"))


def share_memory() -> None:
    """Keep off what is loaded: what the garbage collector writes to, or a look at it does, every child has to copy.

    And have it in large pages, of which there are fewer to list in a fork. That comes first: it may import something.
    Its holes are filled last, when all that is garbage has left its own.
    """
    join_pages()
    remember()
    gc.collect()
    fill_holes()
    gc.freeze()
