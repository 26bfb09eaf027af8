"""Ctrl-C, and what else asks a run to end: raised once, and never in the middle of what must be whole.

A run that has heard it takes a second or two to end its processes and to write what there is. Whoever presses the keys
again in that time must not cut that short: processes would be left, or half a report.
"""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import dataclass
from types import FrameType, TracebackType

#: What terminals, `timeout` and service managers send to have a process end.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: Seconds after which it is raised again: whatever takes so long hangs.
AGAIN = 10.0


@dataclass
class _State:
    """Of the process, as its signal handlers are. The main thread alone touches it."""

    held: bool = False
    came: bool = False
    """Whether it has come while it was held."""
    raised: float | None = None
    """When it was raised."""


_state = _State()


def listen() -> None:
    """From now on a signal to end is a KeyboardInterrupt, once; but for those that this process, a new one, ignores."""
    for number in ENDING:
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _hear)


def listen_no_more() -> None:
    """Ignore them to the end of the process: while the interpreter ends they would kill it, and change its status."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


class Held:
    """A context manager: Ctrl-C waits for the end of the block, and is raised there unless another error is."""

    held = True

    def __enter__(self) -> None:
        self._mine = threading.current_thread() is threading.main_thread()
        if self._mine:
            self._before, _state.held = _state.held, self.held
            self._due()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._mine:
            _state.held = self._before
            if error is None:
                self._due()

    @staticmethod
    def _due() -> None:
        if _state.came and not _state.held:
            _state.came = False
            _raise()


class Heard(Held):
    """A context manager, inside of `Held`: Ctrl-C is raised at once."""

    held = False


def _hear(_: int, __: FrameType | None) -> None:
    if _state.raised is not None and time.monotonic() < _state.raised + AGAIN:
        return
    if _state.held:
        _state.came = True
    else:
        _raise()


def _raise() -> None:
    _state.raised = time.monotonic()
    raise KeyboardInterrupt
