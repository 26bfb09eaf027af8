"""Run kvcheck's own kernel over seeds FIRST..LAST, one row each, in Triton's interpreter; print what the judge says.

One process for all, unlike a run of the command, which forks one a case: the subject is the judge, not isolation.
Prints a line `seed outcome lost stray` for each seed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import msgspec

from kvcheck.judge.judge import judge
from kvcheck.run.protocol import EMISSION, Job
from kvcheck.schema import Case, Emission


def main(first: int, last: int) -> None:
    """Run every seed from `first` to `last`."""
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernel imports triton
    import torch  # noqa: PLC0415

    from kvcheck.kernels.store import store  # noqa: PLC0415
    from kvcheck.run.case import run_case  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        emission = Path(folder) / EMISSION
        for seed in range(first, last + 1):
            emission.unlink(missing_ok=True)
            case = Case(tokens=1, heads=1, head_dim=4, seed=seed)
            run_case(Job(seed, "store", case, folder, 60.0), store, torch.device("cpu"))
            verdict = judge(msgspec.msgpack.decode(emission.read_bytes(), type=Emission))
            sys.stdout.write(f"{seed} {verdict.outcome} {verdict.writes.lost} {verdict.writes.stray}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
