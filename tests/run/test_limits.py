"""Limits of a child, watched from outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvcheck.run.limits import PRINTED, Limits, limits_here
from kvcheck.run.protocol import STDERR, STDOUT, Ended


def test_a_process_within_its_limits_is_left_alone(tmp_path: Path) -> None:
    """Whether it has printed yet or not."""
    assert Limits(1 << 40).exceeded(os.getpid(), str(tmp_path)) is None
    (tmp_path / STDOUT).write_bytes(b"x" * 10)
    assert Limits(1 << 40, printed=10).exceeded(os.getpid(), str(tmp_path)) is None


def test_too_much_memory_is_said() -> None:
    """Resident memory counts, not what is merely mapped."""
    assert Limits(1 << 20).exceeded(os.getpid(), "") == "at its limit of 1 MiB of memory"


@pytest.mark.parametrize("name", [STDOUT, STDERR])
def test_too_much_printed_is_said(name: str, tmp_path: Path) -> None:
    """On either output."""
    (tmp_path / name).write_bytes(b"x" * ((1 << 20) + 1))
    limits = Limits(1 << 40, printed=1 << 20)
    assert limits.exceeded(os.getpid(), str(tmp_path)) == "at its limit of 1 MiB of printed text"


def test_a_process_that_is_gone_is_over_no_limit(tmp_path: Path) -> None:
    """It has ended, and is reaped in a moment."""
    assert Limits(0).exceeded(1 << 30, str(tmp_path)) is None


def test_this_machine_has_memory_to_give() -> None:
    """A limit that every process is over would kill every case."""
    limits = limits_here()
    assert limits.printed == PRINTED
    assert limits.exceeded(os.getpid(), "") is None


def test_a_limit_is_no_time_limit() -> None:
    """What the nursery says of a killed child tells them apart; both are absent from what earlier ones said."""
    assert Ended(1, None, 9, 0.5, timed_out=False).limit == ""
