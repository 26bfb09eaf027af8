"""Which line of which file an access was made in: the interpreter runs a kernel's own source, at its own lines."""

from __future__ import annotations

import importlib.util
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

#: Of kvcheck's own code what stands between a kernel and its loads: this check, and what makes the interpreter quicker.
_OWN = (str(Path(__file__).parent), str(Path(__file__).parents[2] / "lowering"))


class Site(NamedTuple):
    """A line, and the lines that called the function it is in, the kernel's own last: `file:line function`."""

    file: str
    line: int
    callers: tuple[str, ...]

    def source(self) -> str:
        """The text of the line; empty where the file is not here."""
        return linecache.getline(self.file, self.line).strip()


def site(ends: Callable[[CodeType], bool]) -> Site | None:
    """The innermost line of a kernel under way, of frames up to the one whose code `ends` the search.

    None where no frame in between is a kernel's.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the one way to the frames of a call under way
    found: list[tuple[str, int, str]] = []
    while frame is not None and not ends(frame.f_code):
        code = frame.f_code
        if not code.co_filename.startswith(_foreign()):
            found.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    if not found:
        return None
    (file, line, _), *callers = found
    return Site(file, line, tuple(f"{name}:{number} {function}" for name, number, function in callers))


def innermost(ends: Callable[[CodeType], bool]) -> tuple[str, int, str] | None:
    """File, line and function of the innermost line alone, likewise."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None and not ends(frame.f_code):
        code = frame.f_code
        if not code.co_filename.startswith(_foreign()):
            return code.co_filename, frame.f_lineno, code.co_name
        frame = frame.f_back
    return None


def _foreign() -> tuple[str, ...]:
    """Folders whose frames are not a kernel's: kvcheck's own, Triton's and numpy's."""
    global _folders  # noqa: PLW0603 - found once
    if not _folders:
        specs = (importlib.util.find_spec(name) for name in ("triton", "numpy"))
        places = [place for spec in specs if spec for place in spec.submodule_search_locations or ()]
        _folders = (*_OWN, *places)
    return _folders


_folders: tuple[str, ...] = ()
