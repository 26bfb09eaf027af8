"""What a child may take of the machine beside time: memory, and room for what it prints.

Both are watched from outside. `RLIMIT_AS` and `RLIMIT_DATA` are no good: CUDA reserves addresses by the hundred GB, and
a large sparse cache is mapped, though hardly touched. `RLIMIT_FSIZE` would count the emission too, which may be large.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from kvcheck.run.protocol import STDERR, STDOUT

#: Seconds between two looks.
EVERY = 0.25

#: Bytes that a child may print to each of its outputs: its last lines are all that is kept.
PRINTED = 64 << 20

#: The part of the memory that was free before any case ran that one child may have resident.
SHARE = 0.5


@dataclass(frozen=True)
class Limits:
    """Bytes."""

    resident: int
    printed: int = PRINTED

    def exceeded(self, pid: int, folder: str) -> str | None:
        """Which limit a child is over, in a few words, or None. A child that is gone is over none."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
            if pages * os.sysconf("SC_PAGE_SIZE") > self.resident:
                return f"at its limit of {self.resident >> 20} MiB of memory"
        for name in (STDOUT, STDERR):
            with contextlib.suppress(OSError):
                if (Path(folder) / name).stat().st_size > self.printed:
                    return f"at its limit of {self.printed >> 20} MiB of printed text"
        return None


def limits_here() -> Limits:
    """The limits on this machine, by what is free now."""
    free = next(
        int(line.split()[1]) << 10
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        if line.startswith("MemAvailable:")
    )
    with contextlib.suppress(OSError, ValueError):  # a container's own limit, where there is one
        free = min(free, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return Limits(int(free * SHARE))
