"""A case under compute-sanitizer, eight at once: recorded launches made again, beside the target's whole process.

`python benchmarks/sanitize.py [REPEATS]`. Both ways take turns in one run, over the case that kvcheck grew from, under
initcheck and memcheck; the launch is recorded once.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kvcheck.run.compute_sanitizer import MISSING, find
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import RECORDING, Job
from kvcheck.run.result import result_of
from kvcheck.run.tools import Setup, Way, under_tools
from kvcheck.schema import Case

CASE = Case(k_view="qkv", v_view="dense", k_values="normal*5", v_values="normal*0.01", layout="pooled")
AT_ONCE = 8
TOOLS = ("initcheck", "memcheck")


def main() -> int:
    """Time, and print a table. 2 where there is no compute-sanitizer, or no GPU."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    sanitizer = find()
    if sanitizer is None:
        sys.stderr.write(f"benchmarks/sanitize.py: {MISSING}\n")
        return 2
    with Nursery("store", Options(device="auto", jobs=1)) as nursery, tempfile.TemporaryDirectory() as root:
        if not nursery.hello.cuda:
            sys.stderr.write("benchmarks/sanitize.py: torch sees no GPU; expected an NVIDIA GPU\n")
            return 2
        (info,) = nursery.hello.targets
        folder = Path(root) / "isolated"
        folder.mkdir()
        nursery.submit(Job(0, info.name, CASE, str(folder), 60.0, witness="record"))
        result = result_of(CASE, nursery.next_ended(), folder, info, expect_declared=False)
        took: dict[tuple[Way, str], list[float]] = {}
        ways: tuple[Way, ...] = ("replay", "whole")
        for number in range(repeats):
            for way in ways:
                for tool in TOOLS:
                    setup = Setup(sanitizer, {tool: ""}, way, "store", info, nursery.environment(), 120.0)

                    def one(index: int, setup: Setup = setup, stem: str = f"{number}-{way}-{tool}") -> str:
                        place = Path(root) / f"{stem}-{index}"
                        place.mkdir()
                        (run,) = under_tools(CASE, result, folder / RECORDING, setup, place).sanitized
                        return run.state

                    began = time.perf_counter()
                    with ThreadPoolExecutor(AT_ONCE) as pool:
                        states = list(pool.map(one, range(2 * AT_ONCE)))
                    took.setdefault((way, tool), []).append((time.perf_counter() - began) / len(states))
                    if set(states) != {"clean"}:
                        sys.stderr.write(f"benchmarks/sanitize.py: {way} under {tool} ended as {sorted(set(states))}\n")
                        return 1
    print(f"{AT_ONCE} at once, {repeats} repeats, seconds a case and tool: median (least … most)")
    for (way, tool), seconds in took.items():
        print(f"{way:8}{tool:12}{statistics.median(seconds):7.3f} ({min(seconds):.3f} … {max(seconds):.3f})")
    for tool in TOOLS:
        whole, replay = (statistics.median(took[way, tool]) for way in ("whole", "replay"))
        print(f"{tool}: whole takes {whole / replay:.1f} times as long as replayed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
