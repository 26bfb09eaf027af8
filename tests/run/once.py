"""Runs that are spared what comes behind their cases, for tests of what the cases come to."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager

import pytest

from kvcheck.run import command, session
from kvcheck.run.compiled import Compiling
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import TargetInfo
from kvcheck.schema import Case
from kvcheck.targets.load import KERNELS as OWN


@contextmanager
def once(but: Container[str] = ()) -> Iterator[None]:
    """In the block cases run once: none is confirmed in a fresh interpreter, and no kernel is compiled beside them.

    Both take seconds for each target, and do the same whatever has failed. The targets in `but` have them.
    """
    confirm = session._confirm

    def confirmed(run: session._Run, nursery: Nursery) -> None:
        if run.info.name in but:
            confirm(run, nursery)

    def compiling(spec: str, info: TargetInfo, cases: tuple[Case, ...], options: Options, arch: str) -> Compiling:
        return Compiling(spec if info.name in but else next(iter(OWN)), info, cases, options, arch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "_confirm", confirmed)
        patch.setattr(command, "Compiling", compiling)
        yield
