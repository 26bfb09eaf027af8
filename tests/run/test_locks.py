"""Two runs that would write the same report: the second is told, and harms nothing."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path

import pytest

from kvcheck.errors import ReportError
from kvcheck.run.locks import locked, only_one

from .command import KERNELS, matrix, start, write_matrix
from .processes import wait_for


def test_a_folder_is_one_run_s_at_a_time(tmp_path: Path) -> None:
    """It is made; and free again after the block."""
    place = tmp_path / "a" / "b"
    with only_one(place), pytest.raises(ReportError, match="another run writes its report here"), only_one(place):
        pytest.fail("two")
    with only_one(place):
        assert place.is_dir()


def test_a_folder_that_cannot_be_locked_is_nobody_s_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be made is told by whoever writes there; a file system may know no locks."""
    (tmp_path / "file").touch()
    with only_one(tmp_path / "file"):
        pass

    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks here")

    monkeypatch.setattr(fcntl, "flock", flock)
    with only_one(tmp_path), only_one(tmp_path):
        pass
    with pytest.raises(OSError, match="no locks"):
        locked(tmp_path)


def test_a_second_run_is_told_in_one_line_and_the_first_ends_as_if_alone(tmp_path: Path) -> None:
    """Exit 2, nothing removed; once the first is over the folder is anyone's."""
    cases = write_matrix(tmp_path / "cases.toml", heads=list(range(1, 25)), tokens=1, head_dim=8)
    asked = (cases, "--target", KERNELS / "slow.py")
    first = start("matrix", *asked, "--device", "cpu", "-j", 1, "--out", tmp_path / "out", cwd=tmp_path)
    with first:
        try:
            wait_for(lambda: list((tmp_path / "out").glob("*/*/journal")))
            second = matrix(tmp_path / "out", *asked)
            assert first.poll() is None, "over too soon to test anything"
            first.communicate(timeout=120)
        finally:
            first.kill()
    assert second.code == 2
    assert second.err == (
        f"kvcheck: {tmp_path / 'out' / 'sm_90-host' / 'slow'}: another run writes its report here; name another --out\n"
    )
    assert first.returncode == 0
    after = matrix(tmp_path / "out", *asked, "--resume")
    assert (after.code, after.err) == (0, "kvcheck: --resume: slow: 24 of 24 cases are taken over\n")
