"""Run the targets of a file over cases of their own, in one nursery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from kvcheck.matrix.load import load_cases
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.session import run_target
from kvcheck.schema import Case, CaseResult

KERNELS = Path(__file__).parent / "kernels"

Results = dict[str, tuple[CaseResult, ...]]


def size(case: Case) -> int:
    """Elements to draw and to store; a token at least, since a case without any takes its time too."""
    return max(case.rows, 1) * case.heads * (case.head_dim + case.dim_v)


@cache
def default() -> tuple[Case, ...]:
    """The default matrix, the cheapest cases first; those of no token last, since they can show so little."""
    return tuple(sorted(load_cases(["default"]), key=lambda case: (case.tokens == 0, size(case))))


def run_file(
    spec: str | Path, cases: Mapping[str, Sequence[Case]], device: str = "cpu", *, confirm: bool = False
) -> Results:
    """The results of every target named in `cases`, on the CPU or on CUDA, in its cases' order.

    `confirm`: those that fail run again, as a whole run has them.
    """
    options = Options(device=device, jobs=2 if device == "cpu" else 8, confirm=confirm, trace=confirm)
    with Nursery(str(spec), options) as nursery:
        assert nursery.hello.missing is None
        return {
            info.name: run_target(nursery, info, cases[info.name], options, lambda _: None)
            for info in nursery.hello.targets
            if info.name in cases
        }
