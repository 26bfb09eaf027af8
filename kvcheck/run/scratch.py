"""Folders of temporary files, which no run leaves behind for ever: what one could not remove, the next does.

Each is locked by the process that made it, as long as that lives. A lock goes with its process, however it ends, and
means the same in every container that shares the folder: process ids do not.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvcheck.run.locks import locked

PREFIX = "kvcheck-run-"

#: Where Linux has files that lie in memory, and the bytes that must be free there.
_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder is made there as safely as anywhere
_FREE = 1 << 30
#: It stands where a service manager looks after logins: when a user has logged out, it removes what is theirs there.
_LOGINS = Path("/run/systemd/seats")
#: By these a user says where temporary files belong.
_NAMED = ("TMPDIR", "TEMP", "TMP")


@contextmanager
def scratch(place: Path | None = None) -> Iterator[Path]:
    """A folder that is empty, and is removed with all that is in it. Before, those that dead processes left are.

    It is made in `place`, without one where temporary files belong. Raises OSError.
    """
    place = Path(tempfile.gettempdir()) if place is None else place
    sweep(place)
    folder, lock = _new_folder(place)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


@contextmanager
def scratch_in_memory() -> Iterator[Path | None]:
    """Such a folder for small files that soon go; None where the user says where they belong, or there is none safe.

    A disk's file system passes all files that were lately removed before it makes another: a twentieth of a small case.
    """
    with contextlib.ExitStack() as stack:
        folder = None
        with contextlib.suppress(OSError):
            if not any(map(os.environ.get, _NAMED)) and _is_safe(_IN_MEMORY):
                folder = stack.enter_context(scratch(_IN_MEMORY))
        yield folder


def _is_safe(place: Path) -> bool:
    """Whether it is a file system of its own with enough free, where files stay when their user logs out.

    Raises OSError.
    """
    found = os.statvfs(place)
    stays = os.getuid() == 0 or not _LOGINS.exists()
    return stays and place.is_mount() and found.f_bavail * found.f_frsize >= _FREE


def sweep(place: Path) -> None:
    """Remove the folders below `place` that processes of this user made which are gone. Those of others are left."""
    with contextlib.suppress(OSError):
        for folder in place.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):  # another run removes it, or what it stands on knows no locks
                if folder.lstat().st_uid == os.getuid():
                    lock = locked(folder)
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(lock)


def _new_folder(place: Path) -> tuple[Path, int | None]:
    """A new folder, and the lock on it; None where there are no locks, so that nobody else will think it left."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        try:
            lock = locked(folder)
        except (BlockingIOError, FileNotFoundError):
            continue  # another run found it before it was locked, and removes it
        except OSError:
            return folder, None
        if folder.exists():
            return folder, lock
        os.close(lock)
