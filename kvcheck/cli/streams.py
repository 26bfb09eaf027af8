"""The standard streams of a command that may run for long: whoever reads them may leave, and the run must not."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import TextIO


def secure() -> Callable[[], str | None]:
    """Give this process three standard streams, of which output and error outlive their reader.

    A stream that was closed before the start is /dev/null: the next file opened would get its number.

    Returns what tells why standard output was not written whole, or None: that its reader has left is no reason.
    """
    while (null := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass  # it has the lowest number that was free
    os.close(null)
    output, error = _Outlet(sys.stdout or _dropped()), _Outlet(sys.stderr or _dropped())
    sys.stdout, sys.stderr = output, error
    return lambda: output.lost


def _dropped() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - lives as long as the process


class _Outlet:
    """A text stream that goes nowhere from the first write which fails: a closed pipe, a full disk.

    Reports are files, and the exit code is that of the cases; neither depends on who listens. `lost` is why what was
    written is not whole, where a reader still waits for it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost: str | None = None

    def write(self, text: str) -> int:
        """Write, or drop."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._drop(error)
            return len(text)

    def flush(self) -> None:
        """Flush, or drop."""
        try:
            self._stream.flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        """Let the stream's file be /dev/null: what is still in its buffer is flushed once more at the end."""
        if error.errno != errno.EPIPE:
            self.lost = error.strerror or str(error)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)
