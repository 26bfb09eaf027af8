"""Whatever is killed while a run goes on, no result is lost, doubled or better than it is."""

from __future__ import annotations

import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from kvcheck.run.journal import NAME

from .chaos import Chaos
from .command import KERNELS, matrix, outcomes, reports_in, write_matrix
from .test_resume import timeless


@pytest.mark.parametrize(
    ("kills", "seed"), [(12, 0), *(pytest.param(40, seed, marks=pytest.mark.exhaustive) for seed in range(1, 6))]
)
def test_whatever_is_killed_the_report_is_that_of_an_undisturbed_run(kills: int, seed: int, tmp_path: Path) -> None:
    """Cases, nurseries, judges and the run itself, at random instants; the last run takes the rest up."""
    heads = list(range(1, 4 * kills + 1))
    cases = write_matrix(tmp_path / "cases.toml", heads=heads, tokens=1, head_dim=8)
    asked = (cases, "--target", KERNELS / "mixed.py", "-j", 2, "--timeout", 4)
    whole = matrix(tmp_path / "whole", *asked)
    assert Counter(outcomes(whole.report)) == _expected(heads)
    size = sum(path.stat().st_size for path in whole.folder.glob(f"*/*/{NAME}"))

    chaos = Chaos(asked, tmp_path / "out", tmp_path, random.Random(seed))  # noqa: S311 - victims and instants
    status = chaos.disturb(kills, size)
    print(f"{sum(chaos.dealt.values())} kills: {sorted(chaos.dealt.items())}")  # noqa: T201 - shown with -s
    assert sum(chaos.dealt.values()) == kills
    assert {how for _, how in chaos.dealt} == {signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP, signal.SIGTERM}

    assert status == 1
    (disturbed,) = reports_in(tmp_path / "out").values()
    assert [case.id for case in disturbed.cases] == [case.id for case in whole.report.cases]
    right = {case.id: case.outcome for case in whole.report.cases}
    better = [case.id for case in disturbed.cases if case.outcome == "pass" != right[case.id]]
    assert better == []
    resumed = matrix(tmp_path / "out", *asked, "--resume")
    left, due = timeless(resumed.report), timeless(whole.report)
    assert [pair for pair in zip(left.cases, due.cases, strict=True) if pair[0] != pair[1]] == []
    assert left == due
    print(f"unlike before the last run: {Counter(outcomes(disturbed)) - Counter(outcomes(whole.report))}")  # noqa: T201


def _expected(heads: list[int]) -> Counter[str]:
    return Counter("crash" if number % 7 == 0 else "mismatch" if number % 5 == 0 else "pass" for number in heads)
