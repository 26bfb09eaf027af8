"""A case in a fresh interpreter, beside the same case in a nursery's child."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvcheck.run.cold import run_fresh
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import Job
from kvcheck.run.result import result_of
from kvcheck.run.session import run_target
from kvcheck.schema import Case

from .command import KERNELS


@pytest.mark.parametrize("target", ["store", "native-cast"])
def test_a_fresh_interpreter_stores_the_bytes_that_a_fork_does(target: str, tmp_path: Path) -> None:
    """Interpreted for the same arch, with the same casts: digests agree."""
    case = Case(tokens=2, heads=1)
    with Nursery(target, Options(device="cpu", jobs=1), "sm_89") as nursery:
        (info,) = nursery.hello.targets
        (ended,) = run_fresh(nursery, [Job(0, info.name, case, str(tmp_path), 60.0)], at_a_time=1)
        fresh = result_of(case, ended, tmp_path, info, expect_declared=False)
        (forked,) = run_target(nursery, info, [case], Options(device="cpu", jobs=1), lambda _: None)
    assert ended.exit == 0
    assert (fresh.outcome, fresh.digest) == (forked.outcome, forked.digest)
    assert fresh.digest is not None


def test_what_a_kernel_does_to_a_fresh_interpreter_is_said_as_of_a_fork(tmp_path: Path) -> None:
    """The signal that killed it, and the launch."""
    case = Case(tokens=6, heads=1, head_dim=8)
    with Nursery(str(KERNELS / "misbehaving.py"), Options(device="cpu", jobs=1)) as nursery:
        info = next(info for info in nursery.hello.targets if info.name == "misbehaving")
        (ended,) = run_fresh(nursery, [Job(0, info.name, case, str(tmp_path), 60.0)], at_a_time=1)
    result = result_of(case, ended, tmp_path, info, expect_declared=False)
    assert (result.outcome, result.process.signal) == ("crash", "SIGSEGV")
    assert "in launch 1" in result.reason


def test_a_target_that_is_gone_is_no_pass(tmp_path: Path) -> None:
    """The process says so and leaves no emission."""
    with Nursery("store", Options(device="cpu", jobs=1)) as nursery:
        (ended,) = run_fresh(nursery, [Job(0, "another", Case(), str(tmp_path), 60.0)], at_a_time=1)
        result = result_of(Case(), ended, tmp_path, nursery.hello.targets[0], expect_declared=False)
    assert (ended.exit, result.outcome) == (2, "crash")
    assert "holds no 'another' any more" in (result.process.error or "")
