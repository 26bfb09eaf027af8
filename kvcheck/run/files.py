"""Files that are whole or absent."""

from __future__ import annotations

import os
from pathlib import Path


class UnwritableError(Exception):
    """A file of kvcheck's own could not be written, by no fault of the kernel's: a full disk, say."""


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` so that a reader, and a process killed here, see all of it or nothing. Raises UnwritableError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        raise UnwritableError(f"{path.name} could not be written: {error.strerror or error}") from error
