"""Targets that take liberties with kvcheck itself: no pass that was not seen, no case lost, nobody's traceback."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from .command import KERNELS, matrix, outcomes, write_matrix


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A matrix of two small cases."""
    return write_matrix(tmp_path / "few.toml", tokens=[2, 3], heads=1, head_dim=8)


def test_what_an_import_does_to_its_process_changes_no_verdict(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise in kvcheck's pipes is not taken for an answer; ignored signals and another folder lose no case."""
    monkeypatch.chdir(KERNELS)
    ran = matrix(tmp_path / "out", few, "--target", "rude.py")
    assert (ran.code, ran.err) == (0, "")
    assert outcomes(ran.report) == ["pass", "pass"]
    assert "left 1 more thread running" in str(ran.report.environment["fresh_interpreters"])


def test_a_forged_reading_is_no_pass(few: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A target that replaces kvcheck's own functions is inconclusive; one that removes its files costs its cases."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path / "temporary"))
        patch.setattr(tempfile, "tempdir", None)  # forgets the folder that was chosen
        os.mkdir(tmp_path / "temporary")  # noqa: PTH102
        ran = matrix(tmp_path / "out", few, "--target", KERNELS / "forger.py", "-j", 1)
    assert ran.code == 3
    assert {name: outcomes(report) for name, report in ran.reports.items()} == {
        "forger": ["inconclusive"] * 2,
        "sweeper": ["inconclusive"] * 2,
    }
    assert "has replaced kvcheck.memory.arena.Memory.download" in ran.reports["forger"].cases[0].reason
    assert "Traceback" not in capfd.readouterr().err
