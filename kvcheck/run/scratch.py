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


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is empty, and is removed with all that is in it. Before, those that dead processes left are."""
    sweep(Path(tempfile.gettempdir()))
    folder, lock = _new_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def sweep(place: Path) -> None:
    """Remove the folders below `place` that processes of this user made which are gone. Those of others are left."""
    with contextlib.suppress(OSError):
        for folder in place.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):  # another run removes it, or what it stands on knows no locks
                if folder.lstat().st_uid == os.getuid():
                    lock = locked(folder)
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(lock)


def _new_folder() -> tuple[Path, int | None]:
    """A new folder, and the lock on it; None where there are no locks, so that nobody else will think it left."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            lock = locked(folder)
        except (BlockingIOError, FileNotFoundError):
            continue  # another run found it before it was locked, and removes it
        except OSError:
            return folder, None
        if folder.exists():
            return folder, lock
        os.close(lock)
