"""What a run hands over beside its reports."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from .command import KERNELS, matrix, write_matrix


@pytest.fixture(autouse=True)
def no_github(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not take this run for a job of GitHub's."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def test_a_case_that_is_missing_since_the_baseline_is_no_pass(tmp_path: Path) -> None:
    """The same cases are as before; fewer are exit 3, and JUnit has those that ran."""
    target = f"{KERNELS / 'misbehaving.py'}::misbehaving"
    two = write_matrix(tmp_path / "two.toml", tokens=[1, 29], heads=1, head_dim=8)
    one = write_matrix(tmp_path / "one.toml", tokens=[1], heads=1, head_dim=8)
    assert matrix(tmp_path / "before", two, "--target", target).code == 0
    same = matrix(tmp_path / "same", two, "--target", target, "--baseline", tmp_path / "before")
    assert same.code == 0
    assert "against the baseline: all 2 cases as before" in same.out
    file = tmp_path / "junit.xml"
    fewer = matrix(tmp_path / "fewer", one, "--target", target, "--baseline", tmp_path / "before", "--junit", file)
    assert fewer.code == 3
    assert "against the baseline: 1 missing, 1 as before" in fewer.out
    root = ET.fromstring(file.read_bytes())  # noqa: S314 - written a line ago
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("1", "0", "0")


def test_a_file_that_cannot_be_written_stops_the_run_before_it_starts(tmp_path: Path) -> None:
    """A folder of that name, and a file where a folder should be: one line, exit 2, no report, and nothing left."""
    (tmp_path / "file").touch()
    for place, why in ((tmp_path, "Is a directory"), (tmp_path / "file" / "junit.xml", "File exists")):
        ran = matrix(tmp_path / "out", "--junit", place)
        assert ran.code == 2
        assert f"{place}: cannot be written: {why}" in " ".join(ran.err.split())
        assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_baseline_that_is_none_stops_the_run_before_it_starts(tmp_path: Path) -> None:
    """One line, exit 2, and no report."""
    ran = matrix(tmp_path / "out", "--baseline", tmp_path / "nowhere")
    assert ran.code == 2
    assert "nowhere" in ran.err
    assert ran.reports == {}


def test_junit_that_cannot_be_written_hides_no_report(tmp_path: Path) -> None:
    """A disk that is full by then: the report is there and shown; the exit code says that something is missing."""
    one = write_matrix(tmp_path / "one.toml", tokens=[1], heads=1, head_dim=8)
    target = f"{KERNELS / 'misbehaving.py'}::misbehaving"
    ran = matrix(tmp_path / "out", one, "--target", target, "--junit", "/dev/full")
    assert ran.code == 2
    assert "report.md" in ran.out
    assert "/dev/full: cannot be written" in ran.err
    assert "exit 2" in ran.out
    assert ran.report.summary["pass"] == 1
