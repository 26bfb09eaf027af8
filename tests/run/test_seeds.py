"""Chance must not make a right kernel look wrong: a stored byte that equals what stood there before is no lost byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .command import environment

SEEDS = 300
#: Processes that share the seeds.
PROCESSES = 2


def test_over_300_seeds_the_right_kernel_shows_no_lost_and_no_stray_byte() -> None:
    """Of 16 stored bytes a seed, some 56 equal what stood there, over all launches and seeds; none is called lost."""
    script = Path(__file__).parent / "seeds.py"
    env = {**environment(), "OMP_NUM_THREADS": "1"}
    share = SEEDS // PROCESSES
    started = [
        subprocess.Popen(
            [sys.executable, str(script), str(first), str(first + share - 1)],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in range(0, SEEDS, share)
    ]
    lines = [line.split() for process in started for line in process.communicate()[0].splitlines()]
    assert [process.returncode for process in started] == [0] * PROCESSES
    assert [int(line[0]) for line in lines] == list(range(SEEDS))
    assert {tuple(line[1:]) for line in lines} == {("pass", "0", "0")}
