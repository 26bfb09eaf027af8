"""Engines that have no wheel to test with here: run where an environment variable names a checkout.

KVCHECK_FREETOKEN: one that has `quantize_kv_to_cache` as pull request 354 had it, which hands on K's row pitch alone.
KVCHECK_FREETOKEN_FIXED: one that hands on V's too. KVCHECK_FREETOKEN_FORK: a fork with `store_kv_quant`, which takes a
format of V's own. KVCHECK_VLLM: one of vLLM, or a folder that has its wheel unpacked.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from run.command import Ran, matrix

from kvcheck.schema import CaseResult

SOME = ("--select", "dtype=bf16,layout=arena", "-j", "2")


def checkout(variable: str) -> str:
    """The folder that an environment variable names. Skips the test where it names none."""
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} names no checkout")
    return folder


def run(out: Path, variable: str, target: str, *arguments: str) -> Ran:
    """A target over some of the seed, from a checkout."""
    return matrix(out, *arguments, "--target", target, "--engine-path", checkout(variable))


def _assert_v_is_read_with_the_pitch_of_k(cases: Sequence[CaseResult]) -> None:
    """K is right, V is wrong, and only where the pitches differ; the named pitch explains every wrong code."""
    assert cases
    for case in cases:
        unlike = case.axes.get("k_view", "dense") != case.axes.get("v_view", "dense")
        assert case.outcome == ("mismatch" if unlike else "pass"), case
        if unlike:
            assert case.codes is not None
            assert case.codes.k_wrong == 0
            assert case.diagnosis[0].fault == "sibling-pitch"
            assert case.diagnosis[0].explains == case.diagnosis[0].of


def test_freetoken_reads_v_with_the_pitch_of_k(tmp_path: Path) -> None:
    """As the case that started kvcheck: K right, V wrong, and only where the pitches differ."""
    ran = run(tmp_path, "KVCHECK_FREETOKEN", "freetoken", "seed", *SOME)
    _assert_v_is_read_with_the_pitch_of_k(ran.report.cases)
    assert ran.code == 1


def test_freetoken_with_the_pitch_of_v_is_right(tmp_path: Path) -> None:
    """One argument more, and no code is wrong."""
    ran = run(tmp_path, "KVCHECK_FREETOKEN_FIXED", "freetoken", "seed", *SOME)
    assert ran.code == 0
    assert {case.outcome for case in ran.report.cases} == {"pass"}


def test_a_fork_of_freetoken_reads_v_with_the_pitch_of_k_unless_v_has_a_format_of_its_own(tmp_path: Path) -> None:
    """One launch for both sides is given K's strides alone; a launch a side is right, with the same arithmetic."""
    ran = run(tmp_path / "both", "KVCHECK_FREETOKEN_FORK", "freetoken-forks", "seed", *SOME)
    _assert_v_is_read_with_the_pitch_of_k(ran.report.cases)
    assert ran.code == 1
    apart = run(tmp_path / "apart", "KVCHECK_FREETOKEN_FORK", "freetoken-forks-per-side", "seed", *SOME)
    assert apart.code == 0
    assert {case.outcome for case in apart.report.cases} == {"pass"}


def test_vllm_per_token_head_is_right_over_the_seed(tmp_path: Path) -> None:
    """K and V have strides of their own there."""
    ran = run(tmp_path, "KVCHECK_VLLM", "vllm-per-token-head", "seed", *SOME)
    assert ran.code == 0
    assert {case.outcome for case in ran.report.cases} == {"pass"}


def test_vllm_per_token_head_takes_unit_strides_for_granted(tmp_path: Path) -> None:
    """Every second element of K is read as every element: wrong codes, and nothing is refused."""
    chosen = "k_view=inner2,v_view=dense"
    ran = run(tmp_path, "KVCHECK_VLLM", "vllm-per-token-head", "stride", "--select", chosen)
    assert ran.report.cases
    assert "mismatch" in {case.outcome for case in ran.report.cases}
