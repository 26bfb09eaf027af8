"""The same on a GPU: real launches, real memory, and the ways in which only a GPU's process can go wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .command import KERNELS, SEED, Ran, by_axis, matrix, write_matrix
from .graph_results import EXPECTED

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """kvcheck's own kernel over the seed matrix, natively."""
    return matrix(tmp_path_factory.mktemp("store"), SEED, device="cuda")


def test_the_right_kernel_passes_the_seed_matrix_natively(store: Ran) -> None:
    """Exit 0, every case on the GPU that the report names."""
    report = store.report
    assert store.code == 0, store.out
    assert report.summary == {"pass": 48}
    assert report.execution == "native"
    assert report.environment["gpu"]
    assert report.environment["arch"] == report.arch
    (device,) = {case.device for case in report.cases}
    assert device.startswith("cuda:0, NVIDIA ")


def test_equal_logical_inputs_have_equal_digests_on_a_gpu(store: Ran) -> None:
    """Six different inputs, six digests, whatever the views and the layout."""
    digests: dict[tuple[str | int, ...], set[object]] = {}
    for case in store.report.cases:
        key = (case.axes["k_values"], case.axes["v_values"], case.axes["dtype"])
        digests.setdefault(key, set()).add(case.digest)
    assert len(digests) == 6
    assert {len(found) for found in digests.values()} == {1}


def test_the_interpreter_and_the_gpu_store_the_same_bytes(store: Ran, tmp_path: Path) -> None:
    """One case of each dtype on the CPU has the digest, and the id, that it has on the GPU."""
    wanted = "k_view=qkv,v_view=dense,k_values=normal*5,layout=arena"
    interpreted = matrix(tmp_path, SEED, "--select", wanted)
    assert interpreted.report.execution == "interpreted"
    native = {case.id: case.digest for case in store.report.cases}
    assert len(interpreted.report.cases) == 3
    for case in interpreted.report.cases:
        assert case.digest == native[case.id]


def test_the_specimen_is_found_natively(tmp_path: Path) -> None:
    """K right, V wrong in every case of unlike pitches, the pitch named; equal pitches pass."""
    ran = matrix(tmp_path, SEED, "--target", "specimen:shared-pitch", device="cuda")
    assert ran.code == 1
    index = ran.report.faults.index("sibling-pitch")
    for case in ran.report.cases:
        assert (index in case.observable) == (case.axes["k_view"] != case.axes["v_view"])
        if case.axes["k_view"] == case.axes["v_view"]:
            assert (case.outcome, case.codes.wrong) == ("pass", 0)
        else:
            assert (case.outcome, case.codes.k_wrong) == ("mismatch", 0)
            assert case.codes.v_wrong > 2600
            assert case.diagnosis[0].fault == "sibling-pitch"


def test_faults_of_the_gpu_cost_their_own_case(tmp_path: Path) -> None:
    """An illegal access, a device assert and too little memory crash, an endless kernel times out; all others pass."""
    cases = write_matrix(tmp_path / "tokens.toml", tokens=list(range(1, 13)), heads=1, head_dim=8)
    ran = matrix(
        tmp_path / "out", cases, "--target", KERNELS / "gpu_faults.py", "-j", 2, "--timeout", 10, device="cuda"
    )
    found = by_axis(ran.report, "tokens")
    assert {tokens: case.outcome for tokens, case in found.items()} == {
        **dict.fromkeys(range(1, 13), "pass"), 2: "crash", 3: "timeout", 4: "crash", 5: "crash",
    }  # fmt: skip
    assert "illegal memory access" in (found[2].process.error or "")
    assert "assert" in (found[4].process.error or "")
    # Out of memory torch asks NVML how much there is, and fails there first where a machine does not let it.
    assert re.search("out of memory|INTERNAL ASSERT FAILED .*CUDACachingAllocator.cpp", found[5].process.error or "")
    assert ran.code == 1


def test_graphs_are_captured_and_replayed_on_a_gpu(tmp_path: Path) -> None:
    """What a launcher keeps of the call before shows in every case of a graph, and in none of an eager launch."""
    cases = write_matrix(
        tmp_path / "graph.toml", tokens=[3, 8], slots=["permuted", "duplicates"], launch=["graph", "eager"]
    )
    ran = matrix(tmp_path / "out", cases, "--target", KERNELS / "graphs.py", device="cuda")
    for name, (outcome, words) in EXPECTED.items():
        for case in ran.reports[name].cases:
            said = case.diagnosis[0].says if case.diagnosis else case.reason
            wanted, text = (outcome, words) if case.axes["launch"] == "graph" else ("pass", "")
            assert (case.outcome, text in said) == (wanted, True), (name, case.axes, case.outcome, said)
