"""Folders of temporary files: each is removed, by its own process or by a later one, and never while it is in use."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvcheck.run import scratch as module
from kvcheck.run.locks import locked
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.scratch import PREFIX, scratch, scratch_in_memory, sweep
from kvcheck.run.session import SMALL, _Run
from kvcheck.schema import Case

from .command import KERNELS, environment, matrix, start, write_matrix
from .processes import wait_for

HOLDS = """
import sys
from kvcheck.run.locks import locked
from kvcheck.run.scratch import scratch
with scratch() as folder:
    (folder / "file").write_text("mine")
    print(folder, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files of this test and what it starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def _holder() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_it_goes_with_the_block(place: Path) -> None:
    """Whatever lies in it."""
    with scratch() as folder:
        (folder / "more").mkdir()
        assert folder.parent == place
    assert list(place.iterdir()) == []


def test_the_folder_of_a_live_process_stays_and_that_of_a_killed_one_goes(place: Path) -> None:
    """Whoever starts next removes it."""
    live, kept = _holder()
    killed, left = _holder()
    try:
        killed.kill()
        killed.wait(timeout=60)
        assert (left / "file").exists()
        with scratch() as folder:
            assert sorted(place.iterdir()) == sorted([kept, folder])
        assert (kept / "file").read_text(encoding="utf-8") == "mine"
        live.communicate("\n", timeout=60)
        assert list(place.iterdir()) == []
    finally:
        live.kill()
        for process in (live, killed):
            process.communicate()


def test_what_is_no_run_s_folder_is_left_alone(place: Path) -> None:
    """Another's name, a file, a link to somewhere else, and what another user made."""
    (place / "kvcheck-notes").mkdir()
    (place / f"{PREFIX}file").touch()
    (place / "elsewhere").mkdir()
    (place / f"{PREFIX}link").symlink_to(place / "elsewhere")
    before = sorted(place.iterdir())
    sweep(place)
    assert sorted(place.iterdir()) == before
    sweep(place / "not there")


def test_what_another_user_made_is_left_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not even be visible whether that user's process lives."""
    (place / f"{PREFIX}theirs").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: place.stat().st_uid + 1)
    sweep(place)
    assert (place / f"{PREFIX}theirs").exists()


def test_where_there_are_no_locks_nothing_is_swept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run works there all the same, and removes its own."""
    (place / f"{PREFIX}somebody's").mkdir()

    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks here")

    monkeypatch.setattr(fcntl, "flock", flock)
    with scratch() as folder:
        assert folder.is_dir()
    assert [path.name for path in place.iterdir()] == [f"{PREFIX}somebody's"]


@pytest.mark.parametrize("removed", [False, True])
def test_a_folder_that_another_finds_too_early_is_not_used(
    removed: bool, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had no lock yet: the other has it locked, or has removed it. The next one is this run's."""
    taken: list[int] = []

    def found(folder: Path) -> int:
        if not taken:
            taken.append(locked(folder))
            if removed:
                folder.rmdir()
        return locked(folder)

    monkeypatch.setattr(module, "locked", found)
    with scratch() as folder:
        assert folder.is_dir()
    os.close(taken[0])
    assert len(list(place.iterdir())) == (0 if removed else 1)


def test_a_folder_that_is_removed_once_it_is_locked_is_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other had it locked first, and was done with it between two looks."""
    gone: list[Path] = []

    def found(folder: Path) -> int:
        lock = locked(folder)
        if not gone:
            gone.append(folder)
            folder.rmdir()
        return lock

    monkeypatch.setattr(module, "locked", found)
    with scratch() as folder:
        assert folder.is_dir()
        assert folder != gone[0]
    assert list(place.iterdir()) == []


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that passes for a file system in memory, where nobody says where temporary files belong."""
    folder = tmp_path / "memory"
    folder.mkdir()
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module, "_IN_MEMORY", folder)
    monkeypatch.setattr(module, "_LOGINS", tmp_path / "no logins")
    monkeypatch.setattr(Path, "is_mount", lambda path: path == folder)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=1 << 18, f_frsize=1 << 12))
    return folder


def test_small_files_lie_in_memory(memory: Path) -> None:
    """They go with the block; and what a dead process left there goes first."""
    left = memory / f"{PREFIX}left"
    left.mkdir()
    with scratch_in_memory() as folder:
        assert folder is not None
        assert list(memory.iterdir()) == [folder]
    assert list(memory.iterdir()) == []


@pytest.mark.parametrize("name", ["TMPDIR", "TEMP", "TMP"])
def test_who_says_where_temporary_files_belong_is_heard(
    memory: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file lies elsewhere then."""
    monkeypatch.setenv(name, str(memory))
    with scratch_in_memory() as folder:
        assert folder is None


def test_little_memory_is_left_alone(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page less than a GiB: what targets print lies there too. So is a folder of a disk's, and one that is not."""
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=(1 << 18) - 1, f_frsize=1 << 12))
    with scratch_in_memory() as folder:
        assert folder is None
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=1 << 18, f_frsize=1 << 12))
    monkeypatch.setattr(Path, "is_mount", lambda _: False)
    with scratch_in_memory() as folder:
        assert folder is None
    memory.rmdir()
    monkeypatch.setattr(Path, "is_mount", lambda _: True)
    with scratch_in_memory() as folder:
        assert folder is None


def test_no_file_lies_where_a_logout_removes_it(memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run may go on behind it. What is root's stays."""
    monkeypatch.setattr(module, "_LOGINS", tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    with scratch_in_memory() as folder:
        assert folder is None
    monkeypatch.setattr(os, "getuid", lambda: 0)
    with scratch_in_memory() as folder:
        assert folder is not None
        assert folder.parent == memory


def test_the_files_of_small_cases_alone_lie_in_memory(tmp_path: Path) -> None:
    """Those of a large one may be hundreds of MB; and without such memory none do."""
    with Nursery("store", Options(device="cpu")) as nursery:
        run = partial(_Run, [Case(), Case()], nursery.hello.targets[0], Options(), tmp_path / "disk", lambda _: None)
        both = run(in_memory=tmp_path / "memory", sizes={0: SMALL + 1, 1: SMALL})
        assert [Path(both.job(number).folder) for number in (0, 1)] == [both.folder(0), both.folder(1)]
        assert [both.folder(number) for number in (0, 1)] == [tmp_path / "disk" / "0", tmp_path / "memory" / "1"]
        assert Path(both.job(1, reference=True).folder) == tmp_path / "disk" / "reference"
        assert run(sizes={0: SMALL + 1, 1: SMALL}).folder(1) == tmp_path / "disk" / "1"


def test_the_folder_of_a_killed_run_goes_with_the_next(place: Path, tmp_path: Path) -> None:
    """SIGKILL while cases run; the next run leaves nothing of either."""
    cases = write_matrix(tmp_path / "cases.toml", heads=list(range(1, 40)), tokens=1, head_dim=8)
    process = start("matrix", cases, "--target", KERNELS / "slow.py", "--device", "cpu", "--out", "out", cwd=tmp_path)
    with process:
        wait_for(lambda: list(place.glob(f"{PREFIX}*/*")))
        process.kill()
    assert list(place.glob(f"{PREFIX}*"))
    one = write_matrix(tmp_path / "one.toml", heads=[1], tokens=1, head_dim=8)
    assert matrix(tmp_path / "next", one, "--target", KERNELS / "slow.py").code == 0
    wait_for(lambda: not list(place.glob(f"{PREFIX}*")))
