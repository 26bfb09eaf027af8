"""conch's store as it is installed from its wheel: what it does with K and V of unlike pitches."""

from __future__ import annotations

from importlib import metadata

import pytest
from run.command import Ran, matrix

from kvcheck.schema import CaseResult

SOME = ("--select", "dtype=bf16,layout=arena")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Both adapters over the seed's cases in bf16."""
    out = tmp_path_factory.mktemp("conch")
    return matrix(out, "seed", "--target", "conch", "--target", "conch-strict", *SOME, "-j", "2")


def split(cases: tuple[CaseResult, ...]) -> tuple[list[CaseResult], list[CaseResult]]:
    """The cases in which K and V have one pitch, and those in which they have two."""
    equal = [case for case in cases if case.axes.get("k_view", "dense") == case.axes.get("v_view", "dense")]
    return equal, [case for case in cases if case not in equal]


def test_by_default_v_is_read_with_the_pitch_of_k(ran: Ran) -> None:
    """Every case of unlike pitches is wrong, in V alone, and named; no code of any other is."""
    equal, unlike = split(ran.reports["conch"].cases)
    assert (len(equal), len(unlike)) == (4, 4)
    for case in unlike:
        assert case.outcome == "mismatch"
        assert case.codes is not None
        assert (case.codes.k_wrong, case.codes.v_wrong > 2000) == (0, True)
        assert (case.diagnosis[0].fault, case.diagnosis[0].tensor) == ("sibling-pitch", "v")
    for case in equal:
        assert case.outcome == "pass"
        assert case.codes is not None
        assert (case.codes.compared, case.codes.wrong) == (6144, 0)
    assert ran.code == 1


def test_strict_refuses_what_it_would_get_wrong(ran: Ran) -> None:
    """It asserts equal strides: a refusal is no fault, and what is left is right."""
    equal, unlike = split(ran.reports["conch-strict"].cases)
    assert {case.outcome for case in unlike} == {"refused"}
    assert {case.outcome for case in equal} == {"pass"}


def test_the_report_says_whose_file_it_was(ran: Ran) -> None:
    """The version of the wheel, and the hash of every file of its that was imported."""
    target = ran.reports["conch"].target
    assert target.version == metadata.version("conch-triton-kernels")
    assert "conch.kernels.vllm.reshape_and_cache" in target.engine_files
    assert target.path is not None
    assert target.path.endswith("conch/ops/vllm/reshape_and_cache.py")
