"""Run the targets of a file over cases of their own, in one nursery."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

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


def run_files(files: Iterable[str], cases: Mapping[str, Sequence[Case]]) -> Results:
    """Run the targets of several files of `KERNELS`, no two of one name, on the CPU: one nursery loads them all.

    Each keeps the module it is in; only what declares it is another file, which imports theirs.
    """
    names = sorted(files)
    lines = ["import sys", f"sys.path.insert(0, {str(KERNELS)!r})", *(f"import {name}" for name in names)]
    lines += [
        f"for module in ({', '.join(names)},):",
        "    for name, each in list(vars(module).items()):",
        "        if getattr(getattr(each, 'function', None), '__module__', '') == module.__name__:",
        "            each.function.__module__ = __name__",
        "            globals()[f'{module.__name__}_{name}'] = each",
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "together.py"
        path.write_text("\n".join(lines), encoding="utf-8")
        found = run_file(path, cases)
    assert found.keys() == cases.keys()
    return found


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
