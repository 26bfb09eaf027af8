"""The case that kvcheck grew from: the seed matrix on the right kernel, and on the one that shares a pitch."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import msgspec
import pytest

from kvcheck.report.read import read
from kvcheck.schema import CaseResult, Emission

from .command import SEED, Ran, matrix, outcomes

SHARED_PITCH = "specimen:shared-pitch"
#: The geometry, the magnitudes and the dtype of the report, in both ways that it can lie in memory.
ORIGINAL = "k_view=qkv,v_view=dense,k_values=normal*5,dtype=bf16"
CODES = 8 * 3 * 128


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """kvcheck's own kernel over the seed matrix."""
    return matrix(tmp_path_factory.mktemp("store"), SEED)


@pytest.fixture(scope="module")
def specimen(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The specimen over the seed matrix; failing cases keep their emissions beside the report."""
    return matrix(tmp_path_factory.mktemp("specimen"), SEED, "--target", SHARED_PITCH)


def _original(ran: Ran) -> dict[str | int, CaseResult]:
    """The reported case, by layout."""
    wanted = {"k_view": "qkv", "v_view": "dense", "k_values": "normal*5", "v_values": "normal*0.01", "dtype": "bf16"}
    return {case.axes["layout"]: case for case in ran.report.cases if wanted.items() <= case.axes.items()}


def _mixed(case: CaseResult) -> bool:
    return case.axes["k_view"] != case.axes["v_view"]


def test_the_right_kernel_passes_every_case(store: Ran) -> None:
    """Exit 0 with none refused, unsupported or inconclusive, and every code of every case compared."""
    assert store.code == 0
    assert outcomes(store.report) == ["pass"] * 48
    assert {case.codes.compared for case in store.report.cases} == {2 * CODES}
    assert {case.scales.compared for case in store.report.cases} == {2 * 8 * 3}


def test_equal_logical_inputs_have_equal_digests(store: Ran) -> None:
    """Whatever the views and the layout, the same values give the same bytes; other values give others."""

    def values(case: CaseResult) -> tuple[str | int, ...]:
        return case.axes["k_values"], case.axes["v_values"], case.axes["dtype"]

    groups = {key: list(cases) for key, cases in groupby(sorted(store.report.cases, key=values), key=values)}
    digests = {key: {case.digest for case in cases} for key, cases in groups.items()}
    assert [len(cases) for cases in groups.values()] == [8] * 6
    assert [len(found) for found in digests.values()] == [1] * 6
    assert len(set.union(*digests.values())) == 6


def test_independence_is_judged_where_there_is_poison(store: Ran) -> None:
    """In `arena` nothing depends on poison; in `pooled`, which has none, that is not claimed."""
    for case in store.report.cases:
        assert case.independence.differs == (0 if case.axes["layout"] == "arena" else None)


def test_a_run_on_the_cpu_says_that_it_was_interpreted(store: Ran) -> None:
    """No GPU is named, no case ran on one, and the folder says it too."""
    report = store.report
    assert (report.execution, report.arch) == ("interpreted", "sm_90")
    assert [report.environment[fact] for fact in ("gpu", "arch", "driver", "cuda")] == [None] * 4
    assert {case.device for case in report.cases} == {"cpu"}
    assert "in Triton's interpreter on the CPU" in store.out


def test_the_specimen_exits_1_on_every_case_of_unlike_pitches(specimen: Ran) -> None:
    """Exit 1; K is right and V is wrong, in every case with mixed views, and in no other."""
    assert specimen.code == 1
    for case in specimen.report.cases:
        assert case.outcome == ("mismatch" if _mixed(case) else "pass")
        assert case.codes.k_wrong == 0
        assert (2600 < case.codes.v_wrong <= CODES) if _mixed(case) else case.codes.v_wrong == 0


def test_equal_pitches_pass_and_the_fault_is_not_observable_in_them(specimen: Ran) -> None:
    """A pass says nothing of a fault that could not have shown; the mixed views could have shown it."""
    (index,) = [n for n, fault in enumerate(specimen.report.faults) if fault == "sibling-pitch"]
    for case in specimen.report.cases:
        assert (index in case.observable) == _mixed(case)
    assert "sibling-pitch" not in specimen.report.unobservable


def test_the_specimen_is_named(specimen: Ran) -> None:
    """The first diagnosis of every failure is the pitch, in V, with both numbers, and it explains every wrong code."""
    for case in filter(_mixed, specimen.report.cases):
        first = case.diagnosis[0]
        pitches = (1152, 384) if case.axes["k_view"] == "qkv" else (384, 1152)
        assert (first.fault, first.tensor) == ("sibling-pitch", "v")
        assert (first.evidence["pitch_used"], first.evidence["pitch_declared"]) == pitches
        assert first.explains == first.of == case.codes.wrong


def test_the_original_case_shows_what_was_reported(specimen: Ran) -> None:
    """K 0 of 3072, V more than 2600; in `pooled` a test with an absolute tolerance would have passed V."""
    original = _original(specimen)
    assert sorted(map(str, original)) == ["arena", "pooled"]
    for case in original.values():
        assert case.codes.compared == 2 * CODES
        assert case.codes.k_wrong == 0
        assert case.codes.v_wrong > 2600
    assert original["pooled"].tolerance.v.absolute_pass is True
    assert original["pooled"].tolerance.v.relative_pass is False
    assert original["pooled"].writes.lost == original["pooled"].writes.stray == 0


def _kept(out: Path, case: CaseResult) -> Emission:
    (path,) = out.glob(f"*/*/cases/{case.id}.msgpack")
    return msgspec.msgpack.decode(path.read_bytes(), type=Emission)


def test_in_arena_the_same_positions_are_wrong_in_every_run(specimen: Ran, tmp_path: Path) -> None:
    """Another run of the case, and the third launch of each, leave the same bytes; only other poison moves any."""
    case = _original(specimen)["arena"]
    again = matrix(tmp_path, SEED, "--target", SHARED_PITCH, "--select", case.id)
    (other,) = again.report.cases
    assert (other.codes, other.scales, other.digest) == (case.codes, case.scales, case.digest)
    one, two = _kept(specimen.folder, case), _kept(again.folder, case)
    assert [launch.rows for launch in one.launches] == [launch.rows for launch in two.launches]
    assert len(one.launches) == 3
    assert one.launches[0].rows == one.launches[2].rows
    assert one.launches[0].rows["v_codes"] != one.launches[1].rows["v_codes"]


@pytest.mark.parametrize(
    ("target", "outcome", "code"), [(SHARED_PITCH, "xfail", 0), ("declares.py", "xpass", 1)], ids=["bad", "right"]
)
def test_expect_declared_wants_the_declared_fault(tmp_path: Path, target: str, outcome: str, code: int) -> None:
    """A known-bad kernel is excused where its fault is found, and condemned where it should have shown and did not."""
    spec = target if target == SHARED_PITCH else Path(__file__).parent / "kernels" / target
    ran = matrix(
        tmp_path, SEED, "--target", spec, "--expect-declared",
        "--select", f"{ORIGINAL},layout=arena", "--select", "k_view=qkv,v_view=qkv,layout=arena,dtype=fp16",
    )  # fmt: skip
    assert ran.code == code
    assert sorted(outcomes(ran.report)) == sorted([outcome, "pass", "pass"])


def _committed(target: str) -> dict[str, CaseResult]:
    """The cases of the report from an H200 that the repository keeps, by id."""
    report = Path(__file__).parents[2] / "reports" / "sm_90-native" / target / "report.json"
    return {case.id: case for case in read(report).cases}


def test_the_right_kernel_leaves_the_bytes_that_an_h200_left(store: Ran) -> None:
    """Every digest of the interpreted run is that of the same case in the committed report of a GPU."""
    native = _committed("store")
    assert {case.id: case.digest for case in store.report.cases} == {each: case.digest for each, case in native.items()}


def test_the_specimen_is_wrong_as_it_was_on_an_h200(specimen: Ran) -> None:
    """In `arena` the wrong kernel leaves the bytes that it left on a GPU: what it reads by mistake is kvcheck's too."""
    native = _committed("specimen-shared-pitch")
    for case in specimen.report.cases:
        there = native[case.id]
        assert (case.outcome, case.codes.k_wrong) == (there.outcome, there.codes.k_wrong)
        if case.axes["layout"] == "arena":
            # A report of before these were counted says nothing of them.
            codes = case.codes
            if not there.codes.k_compared + there.codes.v_compared:
                codes = msgspec.structs.replace(codes, k_compared=0, v_compared=0)
            assert (case.digest, codes) == (there.digest, there.codes)
