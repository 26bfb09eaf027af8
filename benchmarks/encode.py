"""One encoder, all 2^32 fp32 inputs, with the compare: seconds on this GPU, beside writing and reading 2^32 bytes.

`python benchmarks/encode.py [REPEATS]`. Everything is timed in this one process, in turn, after compilation.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch

from kvcheck.encode.judge import judge
from kvcheck.formats.spec import E4M3FN, Policy
from kvcheck.kernels.sweep import cast_into, encode_into
from kvcheck.run.encode_sweep import ALL, Against, every


def seconds(work: Callable[[], object]) -> float:
    """How long a piece of work takes until the GPU is done with it."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def main() -> int:
    """Time, and print a table. 2 where there is no GPU."""
    if not torch.cuda.is_available():
        sys.stderr.write("benchmarks/encode.py: torch sees no GPU; expected an NVIDIA GPU\n")
        return 2
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    device = torch.device("cuda")
    memory = torch.empty(ALL // 8, dtype=torch.int64, device=device)
    found = []

    def sweep() -> None:
        against = Against(encode_into)
        judged = judge(every(cast_into, E4M3FN, device, watch=against), E4M3FN, Policy())
        found.append((judged.differ, against.differ()))

    works: dict[str, Callable[[], object]] = {
        "sweep, compared and judged": sweep,
        "write 2^32 bytes": lambda: memory.fill_(1),
        "read 2^32 bytes": memory.sum,
    }
    for work in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            times[name].append(seconds(work))
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, {repeats} repeats, median (least … most)")
    for name, taken in times.items():
        print(f"{name:28} {statistics.median(taken):8.4f} s ({min(taken):.4f} … {max(taken):.4f})")
    middle = {name: statistics.median(taken) for name, taken in times.items()}
    sweeps, write, read = middle.values()
    print(f"ratio of the sweep to a write and a read: {sweeps / (write + read):.1f}")
    print(f"codes that differ, by the oracle's cells and by the software encoder: {sorted(set(found))}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
