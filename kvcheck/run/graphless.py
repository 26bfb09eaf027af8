"""Which cases have no graph. No torch in here: the run itself asks."""

from __future__ import annotations

from kvcheck.run.options import Options
from kvcheck.run.protocol import TargetInfo
from kvcheck.schema import Case


def no_graph(case: Case, info: TargetInfo, options: Options) -> str | None:
    """Why a case's launches cannot be replays of a graph here, or None."""
    if case.launch != "graph":
        return None
    if info.execution == "host":
        return "a CUDA graph needs a GPU; without one the launches of Triton kernels are replayed, and this is none"
    if options.witness:
        return "no sanitizer looks into a graph's replay; the same case with launch=eager is looked at"
    if case.layout == "exact":
        return "layout=exact has torch allocate without a pool, and a graph's own memory comes from one"
    return None
