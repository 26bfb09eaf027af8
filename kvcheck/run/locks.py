"""Folders that one process at a time works in. A lock goes with its process, however that ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvcheck.errors import ReportError
from kvcheck.report.plain import one_line


def locked(folder: Path) -> int:
    """The open file by which this process has locked a folder. Raises OSError; BlockingIOError where another has."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """In this block no other run writes a report into a folder, which is made. Raises ReportError where one does.

    Where the file system knows no locks, nobody is told.
    """
    handle = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = locked(folder)
    except BlockingIOError as error:
        raise ReportError(f"{one_line(str(folder))}: another run writes its report here; name another --out") from error
    except OSError:
        pass  # whoever writes there says what is wrong
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)
