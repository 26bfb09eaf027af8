"""Cases whose launch is captured in a graph and replayed, without a GPU: Triton's launches and torch's operators."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.result import SLUGS
from kvcheck.run.session import run_target
from kvcheck.schema import Case, CaseResult

from .command import KERNELS, kvcheck, matrix, write_matrix
from .graph_results import EXPECTED

#: A captured and a called launch, tokens that share a slot among them.
CASES = tuple(
    Case(tokens=5, head_dim=32, slots=slots, launch=launch)
    for launch in ("graph", "eager")
    for slots in ("permuted", "duplicates")
)

Results = dict[str, tuple[CaseResult, ...]]


@pytest.fixture(scope="module")
def results() -> Results:
    """Every target over the cases, each case in its own process, and none of them twice."""
    options = Options(device="cpu", jobs=2, confirm=False, trace=False)
    found: Results = {}
    for file in ("graphs.py", "graphs_of_numpy.py", "graphs_on_host.py"):
        with Nursery(str(KERNELS / file), options) as nursery:
            for info in nursery.hello.targets:
                found[info.name] = run_target(nursery, info, CASES, options, lambda _: None)
    return found


def _of(results: tuple[CaseResult, ...], launch: str) -> list[CaseResult]:
    found = [case for case in results if case.axes["launch"] == launch]
    assert len(found) == 2
    return found


@pytest.mark.parametrize("target", EXPECTED)
def test_a_replay_shows_what_the_launcher_keeps(target: str, results: Results) -> None:
    """By name, in its words; and a launcher that keeps nothing passes."""
    outcome, words = EXPECTED[target]
    for case in _of(results[target], "graph"):
        said = case.diagnosis[0].says if case.diagnosis else case.reason
        assert (case.outcome, words in said) == (outcome, True), said
        assert {each.fault for each in case.diagnosis} <= {"graph-stale"}


@pytest.mark.parametrize("target", EXPECTED)
def test_a_called_launch_shows_nothing_of_it(target: str, results: Results) -> None:
    """Such launchers pass every test that calls them, and the report says that no such case could show it."""
    index = SLUGS.index("graph-stale")
    for case in _of(results[target], "eager"):
        assert (case.outcome, index in case.observable) == ("pass", False), case.reason


def test_a_passing_replay_rules_the_fault_out(results: Results) -> None:
    """K and V, slots: the rows, the slots and an empty graph would all have shown."""
    index = SLUGS.index("graph-stale")
    assert all(index in case.observable for case in _of(results["copies"], "graph"))


def test_what_cannot_be_replayed_is_inconclusive(results: Results) -> None:
    """A launcher that stores through numpy does what no graph without a GPU can hold: said, not taken for a fault."""
    for case in _of(results["of-numpy"], "graph"):
        assert case.outcome == "inconclusive"
        assert "not all that the target does is torch's or Triton's" in case.reason
    assert {case.outcome for case in _of(results["of-numpy"], "eager")} == {"mismatch"}


def test_a_target_that_is_no_triton_kernel_has_no_graph_without_a_gpu(results: Results) -> None:
    """Torch on the host is never captured by an engine either."""
    for case in _of(results["on-host"], "graph"):
        assert (case.outcome, case.reason.partition(";")[0]) == ("unsupported", "a CUDA graph needs a GPU")


def test_a_refusal_before_the_capture_is_one(results: Results) -> None:
    """As that of a launch is."""
    assert {case.outcome for case in results["refuses"]} == {"refused"}


def test_layouts_and_sanitizers_that_have_no_graph_say_so(tmp_path: Path) -> None:
    """Each in a sentence."""
    cases = write_matrix(tmp_path / "graph.toml", tokens=2, heads=1, head_dim=8, launch="graph", layout=["exact"])
    report = matrix(tmp_path / "exact", cases).report
    assert [(case.outcome, "layout=exact" in case.reason) for case in report.cases] == [("unsupported", True)]
    cases = write_matrix(tmp_path / "graph.toml", tokens=2, heads=1, head_dim=8, launch="graph")
    ran = kvcheck("sanitize", cases, "--device", "cpu", "--out", tmp_path / "shadow")
    assert ran.code == 4
    assert "no sanitizer looks into a graph's replay" in " ".join(ran.out.split())
