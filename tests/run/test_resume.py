"""A run that is cut, and taken up again: the report is that of a run that nobody disturbed."""

from __future__ import annotations

import random
import resource
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from kvcheck.run.journal import NAME
from kvcheck.schema import CaseResult, Report

from .command import KERNELS, Ran, matrix, outcomes, start, write_matrix
from .processes import wait_for

HEADS = list(range(1, 25))


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """Small cases, each of an id of its own."""
    return write_matrix(tmp_path / "cases.toml", heads=HEADS, tokens=1, head_dim=8)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The same cases, run by nobody disturbed. Its folder is to be left as it is."""
    folder = tmp_path_factory.mktemp("whole")
    cases = write_matrix(folder / "cases.toml", heads=HEADS, tokens=1, head_dim=8)
    return matrix(folder / "out", *arguments(cases, KERNELS / "slow.py"))


def timeless(report: Report) -> Report:
    """A report without what no two runs share: times, and the command."""
    cases = tuple(_timeless(case) for case in report.cases)
    together = tuple(msgspec.structs.replace(found, seconds=0.0) for found in report.together)
    return msgspec.structs.replace(report, created="", command="", cases=cases, together=together)


def _timeless(case: CaseResult) -> CaseResult:
    return msgspec.structs.replace(case, seconds=0.0)


def arguments(cases: Path, target: object) -> tuple[object, ...]:
    """What the runs of one test have in common."""
    return cases, "--target", target, "-j", 2


def cut(out: Path, size: int, *asked: object, cwd: Path) -> None:
    """Start a run and SIGKILL it once its journal has some bytes."""
    process = start("matrix", *asked, "--device", "cpu", "--out", out, "--resume", cwd=cwd)
    with process:
        try:
            wait_for(lambda: process.poll() is not None or size <= journal_size(out))
        finally:
            process.kill()


def journal_size(out: Path) -> int:
    """Bytes of the journals below a folder."""
    return sum(path.stat().st_size for path in out.glob(f"*/*/{NAME}"))


def test_killed_at_any_instant_it_ends_with_the_same_report(cases: Path, whole: Ran, tmp_path: Path) -> None:
    """Three runs are killed, each a few cases on; the fourth ends as one that nobody disturbed."""
    asked = arguments(cases, KERNELS / "slow.py")
    size = journal_size(whole.folder)
    generator = random.Random(1)  # noqa: S311 - instants
    for third in range(3):
        cut(tmp_path / "cut", size * third // 4 + generator.randrange(size // 4), *asked, cwd=tmp_path)
    resumed = matrix(tmp_path / "cut", *asked, "--resume")
    assert resumed.code == whole.code == 0
    assert "of 24 cases are taken over" in resumed.err
    assert "slow: 0 of" not in resumed.err
    assert timeless(resumed.report) == timeless(whole.report)
    assert len(resumed.report.cases) == len(HEADS)


def test_what_is_taken_over_is_not_run_again(cases: Path, whole: Ran, tmp_path: Path) -> None:
    """A second run of a finished one runs nothing: its times are the first one's. A damaged end is run again."""
    asked = arguments(cases, KERNELS / "slow.py")
    shutil.copytree(whole.folder, tmp_path / "out")
    again = matrix(tmp_path / "out", *asked, "--resume")
    assert again.report.cases == whole.report.cases
    assert again.err == "kvcheck: --resume: slow: 24 of 24 cases are taken over\n"
    (journal,) = (tmp_path / "out").glob(f"*/*/{NAME}")
    journal.write_bytes(journal.read_bytes()[:-1])
    damaged = matrix(tmp_path / "out", *asked, "--resume")
    assert damaged.err == (
        "kvcheck: --resume: slow: 23 of 24 cases are taken over; its journal is damaged behind them\n"
    )
    assert timeless(damaged.report) == timeless(whole.report)
    assert (
        sum(one.seconds != two.seconds for one, two in zip(damaged.report.cases, whole.report.cases, strict=True)) == 1
    )


def test_a_kernel_that_was_edited_keeps_no_pass(tmp_path: Path) -> None:
    """Every case runs again, and fails now."""
    cases = write_matrix(tmp_path / "cases.toml", heads=[1, 2], tokens=1, head_dim=8)
    for name in ("slow.py", "right.py"):
        shutil.copy(KERNELS / name, tmp_path / name)
    asked = arguments(cases, tmp_path / "slow.py")
    assert outcomes(matrix(tmp_path / "out", *asked).report) == ["pass", "pass"]
    helper = tmp_path / "right.py"
    text = helper.read_text(encoding="utf-8")
    helper.write_text(text.replace("side.codes[slots] = codes", "side.codes[slots] = codes ^ 1"), encoding="utf-8")
    edited = _run(tmp_path, *asked, "--out", "out", "--resume")
    assert edited.stderr == "kvcheck: --resume: slow runs anew: unlike what its journal is of: kernels\n"
    assert edited.returncode == 1


def test_a_run_that_is_killed_leaves_no_earlier_report(cases: Path, tmp_path: Path) -> None:
    """It would be read as this run's."""
    asked = arguments(cases, KERNELS / "slow.py")
    one = write_matrix(tmp_path / "one.toml", heads=[1], tokens=1, head_dim=8)
    first = matrix(tmp_path / "out", *arguments(one, KERNELS / "slow.py"))
    assert list(first.folder.glob("*/*/report.*"))
    cut(tmp_path / "out", 2 * journal_size(first.folder), *asked, cwd=tmp_path)
    assert not list(first.folder.glob("*/*/report.*"))


def test_without_a_journal_it_starts_anew(tmp_path: Path) -> None:
    """And says so."""
    cases = write_matrix(tmp_path / "cases.toml", heads=[1], tokens=1, head_dim=8)
    ran = matrix(tmp_path / "out", *arguments(cases, KERNELS / "slow.py"), "--resume")
    assert (ran.code, ran.err) == (0, "kvcheck: --resume: slow runs anew: there is no journal\n")


def test_a_full_disk_stops_the_run_with_one_line_and_loses_nothing(cases: Path, whole: Ran, tmp_path: Path) -> None:
    """No file of the run's own may grow beyond some cases' records; with room again it goes on."""
    asked = arguments(cases, KERNELS / "slow.py")
    limit = journal_size(whole.folder) // 2
    stopped = _run(tmp_path, *asked, "--out", "out", limit=limit)
    assert stopped.returncode == 2
    assert stopped.stderr.startswith("kvcheck: out/")
    assert "cannot be written: File too large; the cases before are kept for --resume" in stopped.stderr
    assert not list((tmp_path / "out").glob("*/*/report.json"))
    resumed = matrix(tmp_path / "out", *asked, "--resume")
    assert "its journal is damaged behind them" in resumed.err
    assert timeless(resumed.report) == timeless(whole.report)


def _run(folder: Path, *asked: object, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run in a process of its own: this one has imported the kernels' helper. `limit` is of the bytes of its files."""
    process = start("matrix", *asked, "--device", "cpu", cwd=folder)
    if limit is not None:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess([], process.returncode, out, err)
